"""Templates of Alertmanager that show the labels and annotations of our alerts, and receivers that use them."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.gen.yaml_text import Tree

FILE = "diag.tmpl"

# What users feel and the cause come first: a title can be read alone on a phone. Rules of Prometheus have neither patch
# nor prediction, and their runbook may be a path, which no chat program makes a link of.
TEMPLATES = """
{{ define "diag.title" -}}
{{ $first := index .Alerts 0 }}{{ if .Alerts.Firing }}{{ $first = index .Alerts.Firing 0 }}{{ end -}}
[{{ if .Alerts.Firing }}{{ $first.Labels.severity }}{{ else }}ended{{ end }}]
{{- with $first.Labels.deployment }} {{ . }}:{{ end }} {{ $first.Annotations.summary }}
{{- if gt (len .Alerts) 1 }} ({{ len .Alerts }} alerts){{ end }}
{{- end }}

{{ define "diag.link" -}}
{{ $first := index .Alerts 0 }}{{ with $first.Annotations.dashboard_url }}{{ . }}{{ else }}{{ .ExternalURL }}{{ end }}
{{- end }}

{{ define "diag.slack" -}}
{{ range .Alerts.Firing }}*{{ .Annotations.summary }}*
{{ .Annotations.description }}
{{ with .Annotations.suggestion }}*{{ . }}*
{{ end }}{{ with .Annotations.patch }}```
{{ . }}
```
{{ end }}{{ with .Annotations.prediction }}{{ . }}
{{ end }}{{ with .Annotations.settings_changed }}Settings changed: {{ . }}
{{ end }}{{ with .Annotations.caused_by }}Caused by {{ . }}
{{ end }}{{ with .Annotations.dashboard_url }}<{{ . }}|Incident> {{ end }}
{{- with .Annotations.picture_url }}<{{ . }}|Picture> {{ end }}
{{- with .Annotations.runbook_url }}{{ if match "^https?://" . }}<{{ . }}|Runbook>{{ end }}{{ end }}

{{ end }}{{ range .Alerts.Resolved }}Ended: {{ .Annotations.summary }}
{{- with .Annotations.ended_because }} ({{ . }}){{ end }}
{{ end }}
{{- end }}

{{ define "diag.markdown" -}}
{{ range .Alerts.Firing }}**{{ .Annotations.summary }}**

{{ .Annotations.description }}

{{ with .Annotations.suggestion }}**{{ . }}**

{{ end }}{{ with .Annotations.patch }}```
{{ . }}
```

{{ end }}{{ with .Annotations.prediction }}{{ . }}

{{ end }}{{ with .Annotations.settings_changed }}Settings changed: {{ . }}

{{ end }}{{ with .Annotations.caused_by }}Caused by {{ . }}

{{ end }}{{ with .Annotations.dashboard_url }}[Incident]({{ . }}) {{ end }}
{{- with .Annotations.picture_url }}[Picture]({{ . }}) {{ end }}
{{- with .Annotations.runbook_url }}{{ if match "^https?://" . }}[Runbook]({{ . }}){{ end }}{{ end }}

{{ end }}{{ range .Alerts.Resolved }}Ended: {{ .Annotations.summary }}
{{- with .Annotations.ended_because }} ({{ . }}){{ end }}

{{ end }}
{{- end }}

{{ define "diag.html" -}}
{{ range .Alerts.Firing }}<h3>{{ .Annotations.summary }}</h3>
<p>{{ .Annotations.description }}</p>
{{ with .Annotations.suggestion }}<p><b>{{ . }}</b></p>
{{ end }}{{ with .Annotations.patch }}<pre>{{ . }}</pre>
{{ end }}{{ with .Annotations.prediction }}<p>{{ . }}</p>
{{ end }}{{ with .Annotations.settings_changed }}<p>Settings changed: {{ . }}</p>
{{ end }}{{ with .Annotations.caused_by }}<p>Caused by {{ . }}</p>
{{ end }}<p>{{ with .Annotations.dashboard_url }}<a href="{{ . }}">Incident</a> {{ end }}
{{- with .Annotations.picture_url }}<a href="{{ . }}">Picture</a> {{ end }}
{{- with .Annotations.runbook_url }}{{ if match "^https?://" . }}<a href="{{ . }}">Runbook</a>{{ end }}{{ end }}</p>
<p>{{ range .Labels.SortedPairs }}{{ .Name }}={{ .Value }} {{ end }}</p>
{{ end }}{{ range .Alerts.Resolved }}<p>Ended: {{ .Annotations.summary }}
{{- with .Annotations.ended_because }} ({{ . }}){{ end }}</p>
{{ end }}
{{- end }}
"""
_TITLE = '{{ template "diag.title" . }}'
_LINK = '{{ template "diag.link" . }}'
_FIRST = "(index .Alerts 0)"
_CRITICAL = 'eq .CommonLabels.severity "critical"'
_COLOUR = f"{{{{ if not .Alerts.Firing }}}}good{{{{ else if {_CRITICAL} }}}}danger{{{{ else }}}}warning{{{{ end }}}}"


def with_receivers(config: Mapping[str, Tree]) -> Tree:
    """Return a configuration with receivers that read as well as the templates allow; secrets are in files."""
    receivers = {"tickets": _slack(), "pager": _pagerduty(), "log": _mail()}
    return {
        "global": {"smtp_smarthost": "mail.example.org:587", "smtp_from": "alertmanager@example.org"},
        "templates": [FILE],
        **config,
        "receivers": [{"name": name, **receiver} for name, receiver in receivers.items()],
    }


def _slack() -> dict[str, Tree]:
    return {
        "slack_configs": [
            {
                "api_url_file": "/etc/alertmanager/secrets/slack",
                "send_resolved": True,
                "color": _COLOUR,
                "title": _TITLE,
                "title_link": _LINK,
                "text": '{{ template "diag.slack" . }}',
                "fallback": _TITLE,
            }
        ]
    }


def _pagerduty() -> dict[str, Tree]:
    details = ("description", "suggestion", "patch", "prediction", "runbook_url")
    return {
        "pagerduty_configs": [
            {
                "routing_key_file": "/etc/alertmanager/secrets/pagerduty",
                "description": _TITLE,
                "client": "diag",
                "client_url": _LINK,
                "severity": f"{{{{ if {_CRITICAL} }}}}critical{{{{ else }}}}warning{{{{ end }}}}",
                "component": "{{ .CommonLabels.server }}",
                "group": "{{ .CommonLabels.deployment }}",
                "class": "{{ .CommonLabels.check }}",
                "details": {name: f"{{{{ {_FIRST}.Annotations.{name} }}}}" for name in details},
            }
        ]
    }


def _mail() -> dict[str, Tree]:
    return {
        "email_configs": [
            {
                "to": "oncall@example.org",
                "send_resolved": True,
                "headers": {"Subject": _TITLE},
                "html": '{{ template "diag.html" . }}',
                "text": '{{ template "diag.markdown" . }}',
            }
        ]
    }
