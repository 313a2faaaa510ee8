{{- define "olmweb.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The release's name where it has the chart's name in it, so that `helm install olmweb` gives olmweb-web. */}}
{{- define "olmweb.fullname" -}}
{{- $name := include "olmweb.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Never change these: selectors of Deployments are immutable. */}}
{{- define "olmweb.selector" -}}
app.kubernetes.io/name: {{ include "olmweb.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "olmweb.labels" -}}
{{ include "olmweb.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "olmweb.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "olmweb.generatedSecret" -}}
{{ include "olmweb.fullname" . }}-generated
{{- end }}

{{/* Name and key of a Secret, as a YAML object: the one that `ref` names, else the generated one.
     Arguments: root, ref (existingSecret, key), generated (the generated Secret's key). */}}
{{- define "olmweb.secretRef" -}}
{{- if .ref.existingSecret -}}
{name: {{ .ref.existingSecret | quote }}, key: {{ .ref.key | quote }}}
{{- else -}}
{name: {{ include "olmweb.generatedSecret" .root | quote }}, key: {{ .generated | quote }}}
{{- end -}}
{{- end }}

{{/* Port of each trial server of this release by its component, as YAML: a server that an existing Secret
     names is not the trial's. */}}
{{- define "olmweb.trialServers" -}}
{{- if .Values.trial.enabled }}
{{- if not .Values.database.existingSecret }}
postgresql: 5432
{{- end }}
{{- if not .Values.redis.existingSecret }}
redis: 6379
{{- end }}
{{- end }}
{{- end }}

{{/* Every setting whose value comes from a Secret: NAME -> {name, key}, as YAML. */}}
{{- define "olmweb.secretFiles" -}}
OLMWEB_SECRET_KEY: {{ include "olmweb.secretRef" (dict "root" . "ref" .Values.secretKey "generated" "secret-key") }}
DATABASE_URL: {{ include "olmweb.secretRef" (dict "root" . "ref" .Values.database "generated" "database-url") }}
REDIS_URL: {{ include "olmweb.secretRef" (dict "root" . "ref" .Values.redis "generated" "redis-url") }}
OLMWEB_METRICS_TOKEN: {{ include "olmweb.secretRef" (dict "root" . "ref" .Values.monitoring.token "generated" "metrics-token") }}
{{- range $name, $ref := .Values.secretSettings }}
{{ $name }}: {name: {{ $ref.name | quote }}, key: {{ $ref.key | quote }}}
{{- end }}
{{- end }}

{{- define "olmweb.ownSettings" -}}
OLMWEB_HOSTS: {{ join "," .Values.hosts | quote }}
OLMWEB_CLUSTERS: {{ join "," .Values.clusters | quote }}
OLMWEB_PUBLIC_URL: {{ printf "https://%s" (first .Values.hosts) | quote }}
{{- with .Values.trustedProxies }}
OLMWEB_TRUSTED_PROXIES: {{ join "," . | quote }}
{{- end }}
OLMWEB_WEB_PROCESSES: "1"
OLMWEB_WEB_THREADS: {{ .Values.web.threads | int64 | quote }}
{{- end }}

{{/* Every setting with its value, as YAML. Whole numbers come as floats from YAML. */}}
{{- define "olmweb.settings" -}}
{{- $data := include "olmweb.ownSettings" . | fromYaml }}
{{- range $name, $value := .Values.settings }}
{{- $_ := set $data $name (kindIs "float64" $value | ternary (printf "%d" (int64 (kindIs "float64" $value | ternary $value 0))) (toString $value)) }}
{{- end }}
{{- toYaml $data }}
{{- end }}

{{/* Pod fields of every pod that runs with restricted pod security, trial servers included. */}}
{{- define "olmweb.placement" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "olmweb.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Environment of a container, as a YAML list. Settings are part of the pod template, and not in a
     ConfigMap that every revision shares: a pod of the revision before must not start again with
     settings that its code refuses. `$` is doubled because Kubernetes replaces $(NAME) in these values.
     Arguments: root, cluster, registry, env. */}}
{{- define "olmweb.env" -}}
{{- $root := .root }}
{{- range $name, $value := include "olmweb.settings" $root | fromYaml }}
- name: {{ $name }}
  value: {{ $value | replace "$" "$$" | quote }}
{{- end }}
{{- range $name, $ref := include "olmweb.secretFiles" $root | fromYaml }}
- name: {{ $name }}_FILE
  value: /etc/olmweb/secrets/{{ $name }}
{{- end }}
- {name: HOME, value: /data}
- {name: TMPDIR, value: /data}
{{- if and .cluster $root.Values.kubeconfig.existingSecret }}
- name: KUBECONFIG
  value: /etc/olmweb/kubeconfig/config
{{- end }}
{{- if and .registry $root.Values.registryAuth.existingSecret }}
- name: REGISTRY_AUTH_FILE
  value: /etc/olmweb/registry/config.json
{{- end }}
{{- if $root.Values.caBundle.configMap }}
- name: SSL_CERT_FILE
  value: /etc/olmweb/ca/ca.crt
- name: REQUESTS_CA_BUNDLE
  value: /etc/olmweb/ca/ca.crt
{{- end }}
{{- with .env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* image, environment, mounts and security of a container of OLM Web. An entry of extraEnv replaces
     the setting of its name, given as a value or as a file: server-side apply refuses a name twice.
     Arguments: root, cluster (whether it talks to clusters), registry (whether to image registries),
     env and mounts (more of them). */}}
{{- define "olmweb.container" -}}
{{- $root := .root }}
image: {{ include "olmweb.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext: {{ include "olmweb.containerSecurity" . | nindent 2 }}
{{- with $root.Values.extraEnvFrom }}
envFrom: {{ toYaml . | nindent 2 }}
{{- end }}
env:
{{- $replaced := dict }}
{{- range $root.Values.extraEnv }}
{{- $_ := set $replaced (trimSuffix "_FILE" .name) true }}
{{- end }}
{{- range include "olmweb.env" . | fromYamlArray }}
{{- if not (hasKey $replaced (trimSuffix "_FILE" .name)) }}
{{- toYaml (list .) | nindent 2 }}
{{- end }}
{{- end }}
{{- with $root.Values.extraEnv }}
{{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: data, mountPath: /data}
  - {name: secrets, mountPath: /etc/olmweb/secrets, readOnly: true}
{{- if and .cluster $root.Values.kubeconfig.existingSecret }}
  - {name: kubeconfig, mountPath: /etc/olmweb/kubeconfig, readOnly: true}
{{- end }}
{{- if and .registry $root.Values.registryAuth.existingSecret }}
  - {name: registry, mountPath: /etc/olmweb/registry, readOnly: true}
{{- end }}
{{- if $root.Values.caBundle.configMap }}
  - {name: ca, mountPath: /etc/olmweb/ca, readOnly: true}
{{- end }}
{{- with .mounts }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.extraVolumeMounts }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "olmweb.volumes" -}}
{{- $root := .root }}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: 64Mi}
  - name: data
    emptyDir: {sizeLimit: {{ .spool | default "256Mi" }}}
  - name: secrets
    projected:
      sources:
{{- range $name, $ref := include "olmweb.secretFiles" $root | fromYaml }}
        - secret:
            name: {{ $ref.name }}
            items:
              - {key: {{ $ref.key | quote }}, path: {{ $name }}}
{{- end }}
{{- if and .cluster $root.Values.kubeconfig.existingSecret }}
  - name: kubeconfig
    secret:
      secretName: {{ $root.Values.kubeconfig.existingSecret }}
      items:
        - {key: {{ $root.Values.kubeconfig.key | quote }}, path: config}
{{- end }}
{{- if and .registry $root.Values.registryAuth.existingSecret }}
  - name: registry
    secret:
      secretName: {{ $root.Values.registryAuth.existingSecret }}
      items:
        - {key: {{ $root.Values.registryAuth.key | quote }}, path: config.json}
{{- end }}
{{- if $root.Values.caBundle.configMap }}
  - name: ca
    configMap:
      name: {{ $root.Values.caBundle.configMap }}
      items:
        - {key: {{ $root.Values.caBundle.key | quote }}, path: ca.crt}
{{- end }}
{{- with .volumes }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.extraVolumes }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "olmweb.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/* Waits until the migrations of this code are applied: no order among the objects is needed, and
     code that was rolled back starts at once on the newer tables. */}}
{{- define "olmweb.waitForMigrations" -}}
initContainers:
  - name: wait-for-migrations
    command:
      - sh
      - -c
      - until python manage.py migrate --check >/tmp/migrate 2>&1; do tail -n 1 /tmp/migrate; sleep 3; done
    resources: {{ toYaml .root.Values.jobs.resources | nindent 6 }}
    {{- include "olmweb.container" (dict "root" .root) | nindent 4 }}
{{- end }}

{{/* A Deployment of OLM Web. Arguments: root, component, replicas, account, cluster, registry, spool,
     grace (seconds), container (YAML: command, args, ports, probes, lifecycle), resources, env. */}}
{{- define "olmweb.deployment" -}}
{{- $root := .root }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "olmweb.fullname" $root }}-{{ .component }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "olmweb.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ .replicas }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {{ toYaml $root.Values.rollingUpdate | nindent 6 }}
  selector:
    matchLabels:
      {{- include "olmweb.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    metadata:
      labels:
        {{- with $root.Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "olmweb.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
      {{- with $root.Values.podAnnotations }}
      annotations: {{ toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "olmweb.fullname" $root }}-{{ .account }}
      automountServiceAccountToken: {{ .cluster | default false }}
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ .grace }}
      {{- include "olmweb.podSecurity" $root | nindent 6 }}
      {{- include "olmweb.placement" $root | nindent 6 }}
      {{- with $root.Values.topologySpread }}
      topologySpreadConstraints:
      {{- range . }}
        - {{ toYaml . | nindent 10 | trim }}
          labelSelector:
            matchLabels:
              {{- include "olmweb.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ $.component }}
      {{- end }}
      {{- end }}
      {{- include "olmweb.waitForMigrations" . | nindent 6 }}
      containers:
        - name: {{ .component }}
          {{- .container | nindent 10 }}
          resources: {{ toYaml .resources | nindent 12 }}
          {{- include "olmweb.container" . | nindent 10 }}
      {{- include "olmweb.volumes" . | nindent 6 }}
{{- end }}
