# Watching and waiting: what happens while somebody looks.
kubectl create namespace watching
kubectl config set-context --current --namespace=watching >/dev/null
kubectl create configmap poked
kubectl create configmap old
kubectl label configmap old poked watched=yes
sh watch.sh 'configmap/late' 'kubectl get configmaps -w -o name' 'kubectl create configmap late'
sh watch.sh 'configmap/later' 'kubectl get configmaps --watch-only -o name' 'kubectl create configmap later'
sh watch.sh 'old  *3' 'kubectl get configmaps -w --no-headers -l watched=yes' "kubectl patch configmap old -p '{\"data\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}}'"
sh watch.sh 'DELETED  *old' 'kubectl get configmaps -w --output-watch-events --no-headers -l watched=yes' 'kubectl label configmap old watched-'
sh watch.sh 'DELETED  *old' 'kubectl get configmaps -w --output-watch-events --field-selector=metadata.name=old' 'kubectl delete configmap old'
kubectl create namespace watching-too
sh watch.sh 'Terminating' 'kubectl get namespace watching-too -w --no-headers' 'kubectl delete namespace watching-too'
kubectl wait --for=create configmap/made --timeout=60s & kubectl create configmap made -o name >/dev/null; wait $!
kubectl wait --for=delete configmap/made --timeout=60s >/dev/null & kubectl delete configmap made >/dev/null; wait $!
kubectl create configmap made
kubectl wait --for=jsonpath='{.data.tide}'=high configmap/made --timeout=60s & kubectl patch configmap made -p '{"data":{"tide":"high"}}' >/dev/null; wait $!
kubectl wait --for=delete configmap/made --timeout=1s
kubectl wait --for=condition=Ready configmap/made --timeout=1s
kubectl wait --for=create configmap/never --timeout=1s
kubectl create deployment web --image=example.test/web:1
kubectl wait --for=condition=Available deployment/web --timeout=60s & kubectl patch deployment web --subresource=status -p '{"status":{"conditions":[{"type":"Available","status":"True"}]}}' >/dev/null; wait $!
kubectl wait --for=condition=Available=true deployment --all --timeout=60s
kubectl rollout status deployment web --timeout=60s | tail -1 & kubectl patch deployment web --subresource=status -p '{"status":{"observedGeneration":9,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}}' >/dev/null; wait $!
kubectl delete namespace watching
