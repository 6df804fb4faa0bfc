# Every way to look.
kubectl create namespace reading
kubectl config set-context --current --namespace=reading >/dev/null
kubectl get all | sed 's/10\.0\.0\.[0-9]*/<none>/'
kubectl create -f harbour.yaml
kubectl create -f yard.yaml
for i in 1 2 3 4 5 6 7; do kubectl create configmap n$i --from-literal=i=$((9 - i)) -o name; done
kubectl label configmap n1 n2 n3 odd=maybe tier=low
kubectl label configmap n4 tier=high
kubectl get configmaps
kubectl get cm/n1 secret/keys
kubectl get cm,secrets
kubectl get configmap n1 none n2
kubectl get configmap none --ignore-not-found
kubectl get whatever
kubectl get configmaps -n nowhere
kubectl get configmaps -o name
kubectl get configmap tides -o json
kubectl get configmaps n1 n2 -o yaml
kubectl get configmaps -o jsonpath='{range .items[*]}{.metadata.name}={.data}{"\n"}{end}'
kubectl get configmaps -o jsonpath='{.kind} {.apiVersion} {.items[0].kind}'
kubectl get configmaps -o custom-columns=NAME:.metadata.name,I:.data.i
kubectl get configmaps -o go-template='{{range .items}}{{.metadata.name}} {{end}}'
kubectl get configmaps --sort-by=.data.i
kubectl get configmaps --sort-by=.metadata.name -o name
kubectl get configmaps --no-headers
kubectl get configmaps -l tier
kubectl get configmaps -l 'tier in (low,mid),odd'
kubectl get configmaps -l 'tier notin (low)' -o name
kubectl get configmaps -l '!tier' -o name
kubectl get configmaps -l tier!=low,app=harbour -o name
kubectl get configmaps -l 'bad selector here'
kubectl get configmaps -l 'a=b c'
kubectl get configmaps --field-selector=metadata.name=n3
kubectl get configmaps --field-selector=metadata.name!=n3 -o name
kubectl get configmaps --field-selector=data.i=3
kubectl get secrets --field-selector=type=Opaque
kubectl get namespaces --field-selector=status.phase=Active -o name | grep -x namespace/reading
kubectl get configmaps --chunk-size=2 -o name
kubectl get configmaps --chunk-size=2
kubectl get --raw '/api/v1/namespaces/reading/configmaps?limit=3' | python3 -c 'import json,sys; l=json.load(sys.stdin); print(len(l["items"]), l["metadata"]["remainingItemCount"], bool(l["metadata"]["continue"]))'
kubectl get configmaps -A --field-selector=metadata.namespace=reading
kubectl get configmaps -A -l tier -o wide
kubectl get configmap n1 -o wide --show-kind --show-labels
kubectl get configmap n1 -o yaml --show-managed-fields
kubectl get all | sed 's/10\.0\.0\.[0-9]*/<none>/'
kubectl get all -o name
kubectl get namespaces reading -o wide
kubectl get namespace reading -o yaml
kubectl get services,deployments -o wide | sed 's/10\.0\.0\.[0-9]*/<none>/'
kubectl get -f harbour.yaml
kubectl get -f harbour.yaml -o name
kubectl get secret keys -o jsonpath='{.data.gate}' | base64 -d
kubectl describe configmap tides | sort
kubectl describe secret keys
kubectl describe configmaps -l tier=low
kubectl describe configmap none
kubectl describe namespace reading | head -4
kubectl describe cm n
kubectl create serviceaccount hand
kubectl describe serviceaccount hand
kubectl get serviceaccounts hand
kubectl create role reader --verb=get,list --resource=configmaps
kubectl create rolebinding reader --role=reader --user=jane --serviceaccount=reading:hand --group=crew
kubectl describe role reader
kubectl describe rolebinding reader
kubectl get rolebindings -o wide
kubectl get clusterroles cluster-admin
kubectl get pods
kubectl create -f pod.yaml
kubectl get pods
kubectl get pods -o wide
kubectl get pod pilot -o jsonpath='{.status.phase} {.spec.nodeName}'
kubectl get pods --field-selector=spec.nodeName=none,status.phase!=Running
kubectl patch pod pilot --subresource=status -p '{"status":{"phase":"Running","podIP":"10.1.1.1","containerStatuses":[{"name":"pilot","ready":true,"restartCount":2,"image":"i","imageID":"i","state":{"running":{}}}],"conditions":[{"type":"Ready","status":"True"}]}}'
kubectl get pods -o wide
kubectl create -f node.yaml
kubectl get nodes
kubectl get nodes -o wide
kubectl get nodes -o custom-columns=N:.metadata.name,U:.spec.unschedulable,T:.spec.taints[0].key
kubectl delete node reading-node
kubectl create -f lease.yaml
kubectl get leases
kubectl get leases -o yaml
kubectl get daemonsets
kubectl create -f daemonset.yaml
kubectl get daemonsets -o wide
kubectl get poddisruptionbudgets
kubectl create poddisruptionbudget some --min-available=1 --selector=app=web
kubectl get poddisruptionbudgets
# A real plane looks after addresses of services, and may say so.
kubectl create -f events.yaml
kubectl get events | grep -v ClusterIPNotAllocated
kubectl get events -o wide | grep -v ClusterIPNotAllocated
kubectl get events --field-selector=involvedObject.name=tides,type=Warning | grep -v ClusterIPNotAllocated
kubectl get events.events.k8s.io | grep -v ClusterIPNotAllocated
kubectl events | grep -v ClusterIPNotAllocated
kubectl events --for=configmap/tides | grep -v ClusterIPNotAllocated
kubectl events --types=Warning | grep -v ClusterIPNotAllocated
kubectl describe configmap tides | sort
kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations
kubectl create -f hooks.yaml
kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations
kubectl delete -f hooks.yaml
kubectl get csr
kubectl delete pod pilot --grace-period=0 --force
kubectl delete namespace reading
