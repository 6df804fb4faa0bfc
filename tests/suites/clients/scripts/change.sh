# Every way to change what is there.
kubectl create namespace changing
kubectl config set-context --current --namespace=changing >/dev/null
kubectl create -f harbour.yaml
kubectl create -f yard.yaml
kubectl patch configmap tides -p '{"data":{"high":"7"}}'
kubectl patch configmap tides -p '{"data":{"high":"7"}}'
kubectl patch configmap tides --type=merge -p '{"data":{"low":null}}' -o jsonpath='{.data}'
kubectl patch configmap tides --type=json -p '[{"op":"add","path":"/data/neap","value":"1"},{"op":"test","path":"/data/high","value":"7"}]'
kubectl patch configmap tides --type=json -p '[{"op":"test","path":"/data/high","value":"9"}]' 2>&1 | grep -o 'The request is invalid: the server rejected our request due to an error in our request'
kubectl patch configmap tides --type=json -p '[{"op":"remove","path":"/data/none"}]' 2>&1 | grep -o 'The request is invalid: the server rejected our request due to an error in our request'
kubectl patch configmap tides -p 'not json' 2>&1 | cut -d: -f1
kubectl patch configmap none -p '{"data":{"a":"1"}}'
kubectl patch configmap tides -p '{"data":{"high":"8"}}' --dry-run=server -o jsonpath='{.data}'
kubectl patch configmap tides -p '{"metadata":{"name":"other"}}'
kubectl patch configmap tides -p '{"metadata":{"resourceVersion":"1"},"data":{"high":"9"}}'
kubectl patch deployment crane -p '{"spec":{"template":{"spec":{"containers":[{"name":"crane","image":"example.test/crane:3"},{"name":"third","image":"example.test/third:1"}]}}}}'
kubectl get deployment crane -o jsonpath='{.spec.template.spec.containers[*].name} {.spec.template.spec.containers[*].image}'
kubectl patch deployment crane -p '{"spec":{"template":{"spec":{"containers":[{"name":"third","$patch":"delete"}]}}}}'
kubectl patch deployment crane -p '{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"hook"},{"name":"crane"}]}}}}'
kubectl get deployment crane -o jsonpath='{.spec.template.spec.containers[*].name} {.metadata.generation}'
kubectl patch service quay -p '{"spec":{"ports":[{"port":9090,"name":"numbers"}]}}'
kubectl get service quay -o jsonpath='{range .spec.ports[*]}{.name} {.port} {.targetPort} {.protocol}{"\n"}{end}'
kubectl patch deployment crane --subresource=status -p '{"status":{"replicas":2,"readyReplicas":1,"updatedReplicas":2,"availableReplicas":1,"observedGeneration":1,"conditions":[{"type":"Available","status":"True","reason":"Enough"}]}}'
kubectl get deployment crane
kubectl get deployment crane --subresource=status -o jsonpath='{.status.conditions[*].type} {.status.replicas}'
kubectl get deployment crane --subresource=scale -o jsonpath='{.kind} {.spec.replicas} {.status.replicas} {.status.selector}'
kubectl patch deployment crane --subresource=scale --type=merge -p '{"spec":{"replicas":5}}'
kubectl scale deployment crane --replicas=3
kubectl scale deployment crane --replicas=4 --current-replicas=9
kubectl scale deployment crane --replicas=4 --current-replicas=3 -o name
kubectl scale configmap tides --replicas=4
kubectl scale deployment none --replicas=4
kubectl get deployment crane -o jsonpath='{.spec.replicas}'
kubectl set image deployment/crane crane=example.test/crane:4
kubectl set env deployment/crane LOAD=5 MORE=6
kubectl set env deployment/crane --list
kubectl set resources deployment crane -c crane --limits=cpu=200m
kubectl set selector service quay app=other
kubectl set serviceaccount deployment crane hand
kubectl set subject rolebinding none --user=jane
kubectl get deployment crane -o jsonpath='{.spec.template.spec.containers[?(@.name=="crane")].env[*].value} {.spec.template.spec.containers[?(@.name=="crane")].resources} {.spec.template.spec.serviceAccountName}'
kubectl label configmap tides sea=north app-
kubectl label configmap tides sea=south
kubectl label configmap tides sea=south --overwrite
kubectl label configmap tides 'sea=no good' --overwrite
kubectl label configmaps,secrets --all area=one
kubectl label configmap tides --list | sort
kubectl label -f harbour.yaml -l app=harbour area=two --overwrite --dry-run=server
kubectl annotate configmap tides note='a b' other=c
kubectl annotate configmap tides note='d'
kubectl annotate configmap tides note='d' --overwrite
kubectl annotate configmap tides other-
kubectl annotate configmap tides --list | sort
kubectl get configmaps --show-labels
kubectl get configmaps -L sea,area
EDITOR='sed -i s/high:.*/high:\ \"11\"/' kubectl edit configmap tides
EDITOR=true kubectl edit configmap tides
EDITOR='sed -i s/name:.tides/name:\ other/' kubectl edit configmap tides 2>&1 | sed 's/kubectl-edit-[0-9]*/kubectl-edit-x/'
EDITOR='sed -i s/replicas:.4/replicas:\ 6/' kubectl edit deployment crane -o json
kubectl get configmap tides -o yaml
kubectl get configmap tides -o yaml > read.yaml; sed 's/high:.*/high: "12"/' read.yaml | kubectl replace -f -
sed 's/high:.*/high: "13"/' read.yaml | kubectl replace -f -
sed -e '/resourceVersion/d' -e '/uid/d' -e 's/high:.*/high: "14"/' read.yaml | kubectl replace -f -
sed -e '/resourceVersion/d' -e 's/uid:.*/uid: other/' read.yaml | kubectl replace -f - 2>&1 | sed 's/StorageError.*AdditionalErrorMsg: //'
kubectl replace -f fresh.yaml
kubectl replace --force -f harbour.yaml
kubectl get configmap tides -o jsonpath='{.data}'
kubectl replace -f harbour.yaml --dry-run=server
kubectl create secret generic fixed --from-literal=a=1
kubectl patch secret fixed -p '{"immutable":true}'
kubectl patch secret fixed -p '{"data":{"a":"Mg=="}}'
kubectl patch secret fixed -p '{"immutable":false}'
kubectl patch secret keys -p '{"type":"other/kind"}'
kubectl patch secret keys -p '{"stringData":{"gate":"shut"}}' -o jsonpath='{.data.gate}'
kubectl rollout restart deployment crane
kubectl get deployment crane -o jsonpath='{.spec.template.metadata.annotations}'
kubectl taint nodes none a=b:NoSchedule
kubectl delete namespace changing
