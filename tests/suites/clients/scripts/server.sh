# What a server says of itself, and who may do what.
kubectl cluster-info | head -1
kubectl get --raw /readyz
kubectl get --raw /livez
kubectl get --raw /nothing
kubectl get --raw /api/v1/namespaces/none
kubectl get --raw /api/v1/nothing
kubectl api-resources --verbs=list,watch,patch --namespaced -o name --sort-by=name | grep -xE 'configmaps|secrets|events|events.events.k8s.io|serviceaccounts|leases.coordination.k8s.io|roles.*|rolebindings.*|deployments.apps|services|pods'
kubectl api-resources -o wide | grep -E '^(configmaps|secrets|serviceaccounts|leases|roles|rolebindings|clusterroles|clusterrolebindings|customresourcedefinitions|(mutating|validating)webhookconfigurations|(self|local)?subject(access|rules)?reviews|tokenreviews|certificatesigningrequests|events|nodes) '
kubectl api-resources --verbs=deletecollection --namespaced=false -o name | grep -xE 'nodes|clusterroles.*'
kubectl api-resources --api-group=nothing.test
kubectl api-resources --categories=api-extensions -o name | grep -v -e apiservices -e admissionpolic
kubectl api-versions | grep -xE 'v1|apps/v1|rbac.authorization.k8s.io/v1|apiextensions.k8s.io/v1|admissionregistration.k8s.io/v1|coordination.k8s.io/v1|events.k8s.io/v1|certificates.k8s.io/v1|authentication.k8s.io/v1|authorization.k8s.io/v1|policy/v1'
kubectl explain configmap | grep -P '^(GROUP|KIND|VERSION|FIELD)|\t<'
kubectl explain secret.data | grep -P '^(GROUP|KIND|VERSION|FIELD)|\t<'
kubectl explain deployment.spec.template.spec.containers.ports | grep -P '^(GROUP|KIND|VERSION|FIELD)|\t<'
kubectl explain deployment.spec.strategy --recursive | grep -P '^(GROUP|KIND|VERSION|FIELD)|\t<'
kubectl explain namespace.metadata.ownerReferences | grep -P '^(GROUP|KIND|VERSION|FIELD)|\t<'
kubectl explain crd.spec.versions.additionalPrinterColumns | grep -P '^(GROUP|KIND|VERSION|FIELD)|\t<'
kubectl explain events --api-version=events.k8s.io/v1 | grep -P '^(GROUP|KIND|VERSION|FIELD)|\t<'
kubectl explain nothing
kubectl explain configmap.nothing
kubectl create namespace judging
kubectl config set-context --current --namespace=judging >/dev/null
kubectl auth whoami -o jsonpath='{.kind} {.status.userInfo.groups}'
kubectl auth can-i '*' '*'
kubectl auth can-i get pods --as=jane
kubectl auth can-i get pods --as=jane -q
kubectl auth can-i get nothing
kubectl auth can-i get /metrics --as=jane
kubectl auth can-i get /healthz --as=jane --as-group=system:authenticated
kubectl create role reader --verb=get,list --resource=configmaps --resource=deployments.apps/scale
kubectl create role named --verb=get --resource=secrets --resource-name=one
kubectl create rolebinding reader --role=reader --user=jane
kubectl create rolebinding named --role=named --group=crew
kubectl create serviceaccount hand
kubectl create rolebinding hand --role=reader --serviceaccount=judging:hand
kubectl auth can-i get configmaps --as=jane
kubectl auth can-i get configmaps --as=jane -n default
kubectl auth can-i get configmaps --as=jane -A
kubectl auth can-i delete configmaps --as=jane
kubectl auth can-i get deployments --subresource=scale --as=jane
kubectl auth can-i get secrets/one --as=joe --as-group=crew
kubectl auth can-i get secrets/two --as=joe --as-group=crew
kubectl auth can-i list configmaps --as=system:serviceaccount:judging:hand
kubectl auth can-i --list --as=jane | grep -E 'configmaps|scale|selfsubject' | sort
kubectl auth can-i --list --as=jane -n default | grep -c configmaps
kubectl auth whoami --as=jane --as-group=crew --as-user-extra=deck=upper -o jsonpath='{.status.userInfo}'
kubectl get configmaps --as=jane
kubectl get secrets --as=jane
kubectl get configmaps -A --as=jane
kubectl create configmap mine --as=jane
kubectl delete configmaps --all --as=jane
kubectl create role more --verb=get --resource=secrets --as=jane
kubectl create clusterrole judging-roles --verb='*' --resource=roles,rolebindings
kubectl create rolebinding roles --clusterrole=judging-roles --user=jane
kubectl create role more --verb=get --resource=secrets --as=jane
kubectl create role same --verb=get --resource=configmaps --as=jane
kubectl create rolebinding same --role=named --user=joe --as=jane
kubectl create rolebinding mine --role=reader --user=joe --as=jane
kubectl auth reconcile -f rights.yaml
kubectl auth reconcile -f rights.yaml
kubectl auth reconcile -f rights.yaml --dry-run=server --remove-extra-permissions
kubectl get role judged -o jsonpath='{.rules}'
kubectl patch rolebinding judged --type=merge -p '{"roleRef":{"name":"other"}}'
kubectl get pods --token=nonsense
kubectl get pods --as=jane --as-uid=1
kubectl create token hand --audience=here --duration=15m -o jsonpath='{.kind} {.spec.audiences} {.spec.expirationSeconds}'
kubectl create token hand -o jsonpath='{.spec.audiences}'
kubectl create secret generic bound
kubectl create token hand --bound-object-kind=Secret --bound-object-name=bound | tr -cd . | wc -c
kubectl create token hand --bound-object-kind=Secret --bound-object-name=none
token=$(kubectl create token hand); kubectl --kubeconfig=/dev/null --server=$(kubectl config view -o jsonpath='{.clusters[0].cluster.server}') --insecure-skip-tls-verify --token=$token auth whoami
sh request.sh judging-yes && sh request.sh judging-no
kubectl get csr judging-yes judging-no --no-headers | awk '{print $1, $3, $5, $6}'
kubectl certificate approve judging-yes
kubectl certificate deny judging-no
kubectl certificate approve judging-no
kubectl wait csr/judging-yes --for=jsonpath='{.status.certificate}' --timeout=60s >/dev/null
kubectl get csr judging-yes judging-no --no-headers | awk '{print $1, $3, $5, $6}'
kubectl get csr judging-yes -o jsonpath='{.status.certificate}' | base64 -d | openssl x509 -noout -subject
kubectl certificate approve none
kubectl delete csr judging-yes judging-no
kubectl delete clusterrole judging-roles
kubectl delete namespace judging
