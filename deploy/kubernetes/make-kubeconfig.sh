#!/usr/bin/env bash
# Prints a kubeconfig for OLM Web: the cluster of kubectl's current context, as the ServiceAccount
# olmweb of rbac.yaml; context, cluster and user have the given name. No other credential is in it.
# Usage: deploy/kubernetes/make-kubeconfig.sh NAME > olmweb.kubeconfig
set -euo pipefail
if [ $# -ne 1 ]; then
  echo "Give the name of the cluster: $0 NAME > olmweb.kubeconfig" >&2
  exit 2
fi
umask 077
file=$(mktemp)
trap 'rm -f "$file"' EXIT
token=$(kubectl --namespace olmweb create token olmweb --duration 8760h)
cluster=$(kubectl config view --minify --flatten --raw --output jsonpath='{.clusters[0].cluster}')
export KUBECONFIG=$file
# Cluster and user have the context's name: kubectl merges files by these names, and of two clusters
# of one name it keeps the first.
printf '{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "%s", "cluster": %s}]}' \
  "$1" "$cluster" >"$file"
kubectl config set-credentials "$1" --token="$token" >/dev/null
kubectl config set-context "$1" --cluster="$1" --user="$1" >/dev/null
kubectl config use-context "$1" >/dev/null
cat "$file"
