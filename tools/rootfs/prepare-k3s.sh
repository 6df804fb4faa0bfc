#!/bin/sh
# What k3s must be told on this machine because of what it shares with others, the kernel and the disk: only that,
# and only where it is so. It lies in k3s's own folder and goes with it.
set -eu
etc=/var/lib/rancher/k3s/agent/etc

# A part of a disk that others fill too says nothing: pods stay until there is really no room.
mkdir -p "$etc/kubelet.conf.d"
cat >"$etc/kubelet.conf.d/90-machine.conf" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard: {imagefs.available: 200Mi, nodefs.available: 200Mi}
imageGCHighThresholdPercent: 100
END

if [ -e /sys/fs/cgroup/memory/cgroup.procs ]; then
	# cgroup v1. From 1.35 on a kubelet does not start there unless told to.
	echo "failCgroupV1: false" >>"$etc/kubelet.conf.d/90-machine.conf"
fi

# CAP_SYS_RESOURCE is bit 24: without it no process can be made less likely to be killed for its memory.
bounding=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)
if [ $((0x$bounding >> 24 & 1)) -eq 0 ]; then
	mkdir -p "$etc/containerd/config-v3.toml.d"
	cat >"$etc/containerd/config-v3.toml.d/90-machine.toml" <<-END
		version = 3
		[plugins.'io.containerd.cri.v1.runtime']
		restrict_oom_score_adj = true
	END
fi
