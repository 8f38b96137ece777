{{/* Labels of a part, which select its Pods, too: none that an upgrade changes. */}}
{{- define "berth.labels" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .release }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Settings of the region: those of the values, and what follows from the release. */}}
{{- define "berth.region" -}}
{{- $region := deepCopy .Values.region }}
{{- $own := dict "login" "inCluster" "reach" "podAddress" "namespace" .Values.instances.namespace }}
{{- $peers := dict "peers" (list (dict "namespace" .Release.Namespace)) }}
{{- $_ := set $region "kubernetes" (merge $own $region.kubernetes $peers) }}
{{- range $region.pools }}
{{- $_ := set . "claims" (merge .claims (dict "storageClass" $.Values.instances.storageClass)) }}
{{- end }}
{{- toPrettyJson $region }}
{{- end }}

{{- define "berth.linkSecret" -}}
{{- toYaml (.Values.secrets.link | default (dict "name" (printf "%s-link" .Release.Name) "key" "secret")) }}
{{- end }}

{{/* Settings of both processes: where they listen, and what browsers see. */}}
{{- define "berth.settings" -}}
BERTH_ENGINE: kubernetes
BERTH_REGION_FILE: /etc/berth/region/region.json
BERTH_LISTEN: 0.0.0.0:8080
BERTH_GATEWAY_LISTEN: 0.0.0.0:8081
BERTH_LINK_LISTEN: 0.0.0.0:8082
BERTH_LINK_SECRET_FILE: /etc/berth/link/secret
BERTH_PUBLIC_ADDRESS: {{ .Values.publicAddress | quote }}
BERTH_API_URL: {{ .Values.apiUrl | quote }}
BERTH_GATEWAY_URL: {{ .Values.gatewayUrl | quote }}
{{- with .Values.domain }}
BERTH_DOMAIN: {{ . | quote }}
{{- end }}
{{- with .Values.trustedProxies }}
BERTH_TRUSTED_PROXIES: {{ join "," . | quote }}
{{- end }}
{{- end }}

{{/* Whether Berth serves TLS itself. */}}
{{- define "berth.ownTls" -}}
{{- if and .Values.tls.secretName (not .Values.ingress.enabled) }}true{{ end }}
{{- end }}

{{/* Environment of a process: dict of names and values. */}}
{{- define "berth.env" -}}
{{- range $name, $value := . }}
- { name: {{ $name }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- end }}

{{- define "berth.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "berth.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* Where the Pod may run. */}}
{{- define "berth.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "berth.mounts" -}}
- { name: region, mountPath: /etc/berth/region, readOnly: true }
- { name: link, mountPath: /etc/berth/link, readOnly: true }
- { name: tmp, mountPath: /tmp }
{{- if include "berth.ownTls" . }}
- { name: tls, mountPath: /etc/berth/tls, readOnly: true }
{{- end }}
{{- end }}

{{- define "berth.volumes" -}}
{{- $link := include "berth.linkSecret" . | fromYaml -}}
- { name: region, configMap: { name: {{ .Release.Name }}-region } }
- name: link
  secret: { secretName: {{ $link.name }}, items: [{ key: {{ $link.key }}, path: secret }] }
- { name: tmp, emptyDir: {} }
{{- if include "berth.ownTls" . }}
- { name: tls, secret: { secretName: {{ .Values.tls.secretName }} } }
{{- end }}
{{- end }}

{{- define "berth.service" -}}
{{- $labels := dict "release" .root.Release.Name "component" .component }}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "berth.labels" $labels | nindent 4 }}
  {{- with .service.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .service.type }}
  {{- with .service.loadBalancerClass }}
  loadBalancerClass: {{ . }}
  {{- end }}
  {{- with .service.externalTrafficPolicy }}
  externalTrafficPolicy: {{ . }}
  {{- end }}
  selector: {{- include "berth.labels" $labels | nindent 4 }}
  ports:
    - name: {{ .component }}
      port: {{ .service.port }}
      targetPort: {{ .component }}
      {{- with .service.nodePort }}
      nodePort: {{ . }}
      {{- end }}
---
# Whoever lacks the secret of the link gets no answer here.
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}-link
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "berth.labels" $labels | nindent 4 }}
spec:
  selector: {{- include "berth.labels" $labels | nindent 4 }}
  {{- if eq .component "api" }}
  # The gateway follows an API that is not ready yet.
  publishNotReadyAddresses: true
  {{- end }}
  ports:
    - { name: link, port: 8082, targetPort: link }
{{- end }}

{{- define "berth.disruptionBudget" -}}
{{- $labels := dict "release" .root.Release.Name "component" .component }}
{{- if .root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "berth.labels" $labels | nindent 4 }}
spec:
  maxUnavailable: 0
  selector:
    matchLabels: {{- include "berth.labels" $labels | nindent 6 }}
{{- end }}
{{- end }}
