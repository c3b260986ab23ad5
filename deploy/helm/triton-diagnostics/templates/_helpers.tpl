{{- define "diag.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "diag.fullname" -}}
{{- $name := include "diag.name" . -}}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- /* Pods of a StatefulSet add a number. */ -}}
{{- .Values.fullnameOverride | default $release | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "diag.selector" -}}
app.kubernetes.io/name: {{ include "diag.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Of the pod of `helm test`, which no selector of the service's own pods fits. */ -}}
{{- define "diag.test" -}}
app.kubernetes.io/component: test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "diag.labels" -}}
{{ include "diag.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "diag.operator" -}}
{{- $there := .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" -}}
{{- if or (eq .Values.prometheusOperator "always") (and (eq .Values.prometheusOperator "auto") $there) -}}true{{- end -}}
{{- end -}}

{{- define "diag.pods" -}}
- namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ .namespace }}
  podSelector:
    matchLabels:
      {{- toYaml .podLabels | nindent 6 }}
{{- end -}}

{{- define "diag.claim" -}}
accessModes: [ReadWriteOnce]
resources:
  requests:
    storage: {{ .Values.persistence.size }}
{{- with .Values.persistence.storageClassName }}
storageClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* What all paths begin with: that of the external URL. */ -}}
{{- define "diag.prefix" -}}
{{- get (urlParse .Values.web.externalUrl) "path" | trimSuffix "/" -}}
{{- end -}}
