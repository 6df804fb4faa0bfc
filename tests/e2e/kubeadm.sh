#!/bin/sh
# Stands in for kubeadm: notes how it was called and with what, and leaves on the machine what kubeadm would.
printf '%s\n' "$*" >>/var/log/kubeadm.calls
case $1 in
init | join)
	cp "$3" "/var/log/kubeadm.$1.yaml"
	if [ -e /etc/kubeadm-fails ]; then
		echo 'error execution phase preflight: the moon is in the wrong quarter' >&2
		exit 3
	fi
	mkdir -p /etc/kubernetes/manifests /var/lib/kubelet /var/lib/etcd/member
	echo 'apiVersion: v1' >"/etc/kubernetes/kubelet.conf"
	echo 'kind: KubeletConfiguration' >/var/lib/kubelet/config.yaml
	;;
reset)
	rm -rf /etc/kubernetes/manifests /etc/kubernetes/kubelet.conf /var/lib/kubelet /var/lib/etcd
	;;
esac
