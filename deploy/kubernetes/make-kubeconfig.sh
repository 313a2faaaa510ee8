#!/usr/bin/env bash
# Prints a kubeconfig for OLM Web: the cluster of kubectl's current context, as the ServiceAccount
# olmweb of rbac.yaml, in a context of the given name. No other credential is in it.
# Usage: deploy/kubernetes/make-kubeconfig.sh NAME > olmweb.kubeconfig
set -euo pipefail
if [ $# -ne 1 ]; then
  echo "Give the name of the cluster: $0 NAME > olmweb.kubeconfig" >&2
  exit 2
fi
umask 077
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
token=$(kubectl --namespace olmweb create token olmweb --duration 8760h)
kubectl config view --minify --flatten --raw >"$folder/config"
export KUBECONFIG=$folder/config
person=$(kubectl config view --output jsonpath='{.users[0].name}')
kubectl config delete-user "$person" >/dev/null
kubectl config set-credentials olmweb --token="$token" >/dev/null
kubectl config set-context --current --user=olmweb --namespace= >/dev/null
context=$(kubectl config current-context)
if [ "$context" != "$1" ]; then kubectl config rename-context "$context" "$1" >/dev/null; fi
cat "$folder/config"
