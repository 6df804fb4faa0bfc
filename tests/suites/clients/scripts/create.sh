# Everything that `kubectl create` makes by itself.
kubectl create namespace creating
kubectl config set-context --current --namespace=creating >/dev/null
kubectl create namespace creating
kubectl create namespace Not_A_Name
kubectl create configmap plain --from-literal=a=1 --from-literal=b=2
kubectl create configmap filed --from-file=key=word.txt --from-file=word.txt
kubectl create configmap plain --from-literal=a=1
kubectl create configmap 'Not A Name' --from-literal=a=1
kubectl create configmap badkey --from-literal='a b=1'
kubectl create secret generic word --from-literal=word=sesame --type=own/kind
kubectl create secret generic hashed --from-literal=word=sesame --append-hash -o name
kubectl create secret docker-registry registry --docker-server=example.test --docker-username=u --docker-password=p
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout tls.key -out tls.crt -subj /CN=client -days 2 2>&1 | wc -c
kubectl create secret tls pair --cert=tls.crt --key=tls.key
kubectl create secret generic half --type=kubernetes.io/tls --from-literal=tls.crt=x
kubectl get secrets -o custom-columns=N:.metadata.name,T:.type,D:.data.word
kubectl create serviceaccount hand
kubectl create token hand --duration=10m | tr -cd . | wc -c
kubectl create token hand --duration=1s
kubectl create token nobody
kubectl create role reader --verb=get,list --resource=configmaps,secrets/word --resource=deployments.apps/scale
kubectl create role nothing --verb=get --resource=whatever
kubectl create role named --verb=get --resource=secrets --resource-name=word --resource-name=pair
kubectl create rolebinding reader --role=reader --serviceaccount=creating:hand --user=jane --group=friends
kubectl create clusterrole creating-reader --verb=get --resource=nodes --non-resource-url=/metrics
kubectl create clusterrole creating-all --aggregation-rule=creating=true
kubectl create clusterrolebinding creating-reader --clusterrole=creating-reader --user=jane
kubectl get role,rolebinding
kubectl get clusterrole,clusterrolebinding creating-reader -o wide
kubectl get role reader -o yaml
kubectl get rolebinding reader -o yaml
kubectl create deployment web --image=example.test/web:1 --image=example.test/side:2 --replicas=3
kubectl create deployment port --image=example.test/web:1 --port=80 -- sleep 1
kubectl get deployment web -o jsonpath='{.metadata.labels} {.spec.selector} {.spec.template.metadata.labels} {.spec.template.spec.containers[*].image}'
kubectl get deployments
kubectl get deployments -o wide
kubectl create service clusterip inside --tcp=80:8080
kubectl create service clusterip headless --clusterip=None
kubectl create service externalname outside --external-name=example.test
kubectl create poddisruptionbudget some --min-available=1 --selector=app=web
kubectl create configmap dry --from-literal=a=1 --dry-run=server -o yaml
kubectl create configmap dry --from-literal=a=1 --dry-run=client -o yaml
kubectl get configmap dry
kubectl create -f generated.yaml | sed 's/made-[a-z0-9]*/made-x/'
kubectl create -f generated.yaml -o name | sed 's/made-[a-z0-9]*/made-x/'
kubectl get configmaps -l made=true -o name | sed 's/made-[a-z0-9]*/made-x/'
kubectl create -f generated.yaml --validate=strict --dry-run=server -o jsonpath='{.metadata.generateName}'
kubectl create -f unknown.yaml
kubectl create -f unknown.yaml --validate=warn
kubectl create -f unknown.yaml --validate=ignore
kubectl create -f twice.yaml
kubectl create -f kindless.yaml --validate=false
kubectl create -f strange.yaml --validate=false
kubectl create -f harbour.yaml --save-config
kubectl create -f harbour.yaml
kubectl create -f yard.yaml
kubectl run pod --image=example.test/pod:1 --restart=Never --dry-run=server -o name
kubectl expose deployment web --port=80 --name=exposed
kubectl get services | sed 's/10\.0\.0\.[0-9]*/<none>/'
kubectl get service exposed -o jsonpath='{.spec.selector} {.spec.ports} {.spec.type} {.spec.sessionAffinity}'
kubectl delete clusterrole creating-reader creating-all
kubectl delete clusterrolebinding creating-reader
# Several in a list. A real plane tells kubectl beforehand what is wrong with them; here the server judges each.
kubectl create -f several.yaml 2>&1 | grep -o 'unknown field "dat"'
kubectl delete configmap first --ignore-not-found >/dev/null
kubectl create -f several.yaml --validate=ignore
kubectl apply --server-side -f several.yaml --validate=ignore 2>&1 | grep -c serverside-applied
kubectl get configmaps first second -o name
kubectl delete namespace creating
