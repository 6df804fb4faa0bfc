# Asks for a client certificate.
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $1.key -out $1.csr -subj /CN=$1 2>/dev/null
kubectl create -f - <<REQUEST
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: $1}
spec: {request: $(base64 -w0 $1.csr), signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}
REQUEST
