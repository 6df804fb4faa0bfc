# An owner and what it owns.
kubectl create configmap owner -o name
uid=$(kubectl get configmap owner -o jsonpath='{.metadata.uid}')
kubectl create -o name -f - <<OWNED
apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: owner, uid: $uid, blockOwnerDeletion: true}
OWNED
