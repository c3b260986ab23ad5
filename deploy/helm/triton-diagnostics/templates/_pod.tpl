{{- define "diag.pod" -}}
{{- $fleet := gt (int .Values.workers) 1 -}}
{{- $name := include "diag.fullname" . -}}
{{- $ingress := ternary (list .Values.ingress.host) list .Values.ingress.enabled -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) -}}
metadata:
  labels:
    {{- include "diag.labels" . | nindent 4 }}
  annotations:
    # A change of the settings starts new pods.
    checksum/config: {{ .Values.config | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ $name }}
  automountServiceAccountToken: {{ not (empty .Values.discovery.namespaces) }}
  enableServiceLinks: false
  # Writes that are under way are finished.
  terminationGracePeriodSeconds: 60
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: diag
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config.file, /etc/diag/config/diag.toml]
      env:
        {{- if $fleet }}
        # First: what follows may hold $(DIAG_FLEET__WORKER).
        - name: DIAG_FLEET__WORKERS
          value: {{ .Values.workers | int | quote }}
        - name: DIAG_FLEET__WORKER
          valueFrom:
            fieldRef:
              fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
        {{- end }}
        - name: DIAG_WEB__LISTEN_ADDRESS
          value: ":9177"
        - name: DIAG_WEB__BEARER_TOKEN_FILE
          value: /etc/diag/web/token
        - name: DIAG_WEB__CONFIG_FILE
          value: /etc/diag/web/web.yml
        - name: DIAG_WEB__ALLOWED_HOSTS
          value: {{ concat $hosts $ingress .Values.web.allowedHosts | join "," | quote }}
        {{- with .Values.web.externalUrl }}
        - name: DIAG_WEB__EXTERNAL_URL
          value: {{ . | quote }}
        {{- end }}
        - name: DIAG_HISTORY__DIRECTORY
          value: /var/lib/diag
        {{- if .Values.database.url }}
        - name: DIAG_HISTORY__DATABASE
          value: {{ .Values.database.url | quote }}
        {{- end }}
        {{- if .Values.database.secret }}
        - name: DIAG_HISTORY__DATABASE_PASSWORD_FILE
          value: /etc/diag/database/password
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: 9177
      # What is remembered is taken up before the port opens.
      startupProbe:
        httpGet:
          path: {{ include "diag.prefix" . }}/healthz
          port: http
        periodSeconds: 5
        failureThreshold: 60
      livenessProbe:
        httpGet:
          path: {{ include "diag.prefix" . }}/healthz
          port: http
        periodSeconds: 20
        timeoutSeconds: 5
      readinessProbe:
        httpGet:
          path: {{ include "diag.prefix" . }}/readyz
          port: http
        periodSeconds: 10
        timeoutSeconds: 5
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: config
          mountPath: /etc/diag/config
          readOnly: true
        - name: web
          mountPath: /etc/diag/web
          readOnly: true
        {{- if .Values.database.secret }}
        - name: database
          mountPath: /etc/diag/database
          readOnly: true
        {{- end }}
        {{- range .Values.secrets }}
        - name: secret-{{ . }}
          mountPath: /etc/diag/secrets/{{ . }}
          readOnly: true
        {{- end }}
        - name: data
          mountPath: /var/lib/diag
        - name: tmp
          mountPath: /tmp
  volumes:
    - name: config
      configMap:
        name: {{ $name }}
    - name: web
      secret:
        secretName: {{ .Values.web.secret }}
        defaultMode: 0440
    {{- if .Values.database.secret }}
    - name: database
      secret:
        secretName: {{ .Values.database.secret }}
        defaultMode: 0440
    {{- end }}
    {{- range .Values.secrets }}
    - name: secret-{{ . }}
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- if not $fleet }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ $name }}
    {{- end }}
    - name: tmp
      emptyDir:
        sizeLimit: 1Gi
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
