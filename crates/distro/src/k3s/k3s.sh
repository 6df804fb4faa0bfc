#!/bin/sh
# What k3s needs done on its machine beyond files and units. Written by Capstan, and gone with it.
#
#   k3s.sh vacant                 fails if there is a k3s that is not ours
#   k3s.sh room                   makes the folders that `clean` takes away
#   k3s.sh ready KIND K3S NODE    fails, with the last words of k3s, until it answers
#   k3s.sh rebooted BOOT_ID       fails as long as the machine has this boot ID
#   k3s.sh reboot BOOT_ID         boots the machine again if it has this boot ID, and waits for its end
#   k3s.sh stop                   ends what k3s leaves running when it is stopped
#   k3s.sh clean                  removes all that k3s wrote but for what is kept, and checks that it is gone
#
# `clean` prints a line `keeps PATH` for each path that it leaves on purpose. The agent reads them: folders that it has made
# itself on the way to such a path may stay.

set -u

# From spec.release of the CapstanConfig, one path in each line. The policy is part of this file, not of the command line of
# `clean`, because the agent runs every undo that it has recorded, also those of former plans.
KEEP=''
WIPE=''

DATA=/var/lib/rancher/k3s
# What k3s and what it runs write, below folders that are theirs alone. Whatever else is in $DATA belongs to users: volumes,
# in `storage` or in another folder that a server was told to use, which its workers do not know of.
FOLDERS="$DATA/agent $DATA/data $DATA/server /etc/rancher/k3s /etc/rancher/node /var/lib/kubelet /var/lib/cni /run/k3s
/run/flannel /var/log/pods /var/log/containers"
# What a k3s always has, and what can never be kept (see `release.rs`).
STATE="$DATA/data $DATA/agent/containerd $DATA/agent/kubelet.kubeconfig $DATA/server/cred $DATA/server/db/etcd
$DATA/server/db/state.db $DATA/server/token /etc/rancher/node"
MOUNTS=/proc/self/mounts
PLUGINS=/usr/libexec/kubernetes/kubelet-plugins
LINKS="cni0 flannel.1 flannel-v6.1 flannel-wg flannel-wg-v6 kube-ipvs0"

for bin in "$DATA"/data/*/bin; do
    [ -d "$bin" ] && PATH="$PATH:$bin:$bin/aux"
done
export PATH

say() {
    echo "$*" >&2
}

# Processes as lines of "parent process".
processes() {
    cat /proc/[0-9]*/stat 2>/dev/null | sed -n 's/^\([0-9]*\) (.*) [A-Za-z] \([0-9]*\) .*/\2 \1/p'
}

# Shims of containerd that are k3s's own: they outlive it, so that pods do.
shims() {
    for folder in /proc/[0-9]*; do
        case "$(tr '\0' ' ' <"$folder/cmdline" 2>/dev/null)" in
        "$DATA"/data/*/bin/containerd-shim* | *containerd-shim*' /run/k3s/'*) echo "${folder#/proc/}" ;;
        esac
    done
}

# The given processes and everything below them.
with_children() {
    awk -v wanted="$*" '
        { children[$1] = children[$1] " " $2 }
        END {
            count = split(wanted, queue, " ")
            for (at = 1; at <= count; at++) {
                if (queue[at] in seen) continue
                seen[queue[at]] = 1
                print queue[at]
                more = split(children[queue[at]], below, " ")
                for (i = 1; i <= more; i++) queue[++count] = below[i]
            }
        }' <<TREE
$(processes)
TREE
}

end_pods() {
    for _ in 1 2 3 4 5; do
        found=$(shims)
        [ -n "$found" ] || break
        # All of them at once: without its shim nobody could tell whose a process is.
        # shellcheck disable=SC2046,SC2086
        kill -9 $(with_children $found) 2>/dev/null
        sleep 1
    done
    # With systemd's own groups all pods are in there.
    if systemctl is-active --quiet kubepods.slice 2>/dev/null; then
        systemctl kill --signal=KILL kubepods.slice 2>/dev/null
        systemctl stop kubepods.slice 2>/dev/null
    fi
}

# Mounts whose path begins with one of the given texts, as the kernel writes them, the innermost first. A path that is
# mounted twice comes twice.
mounts_below() {
    for prefix in "$@"; do
        # As the kernel writes paths. Through the environment, because awk would read a backslash in an argument.
        prefix=$(printf '%s' "$prefix" | sed 's/\\/\\134/g; s/ /\\040/g')
        PREFIX=$prefix awk 'index($2, ENVIRON["PREFIX"]) == 1 { print $2 }' "$MOUNTS"
    done | sort -r
}

unmount_pods() {
    for _ in 1 2 3 4 5; do
        found=$(mounts_below /run/k3s/ /var/lib/kubelet/ "$DATA/agent/" /run/netns/cni-)
        [ -n "$found" ] || break
        printf '%s\n' "$found" | while read -r path; do
            path=$(printf '%b' "$path")
            umount "$path" 2>/dev/null || umount -l "$path" 2>/dev/null
        done
    done
    for space in /run/netns/cni-*; do
        [ -e "$space" ] && rm -f "$space"
    done
}

remove_links() {
    command -v ip >/dev/null || return 0
    ip -o link show master cni0 2>/dev/null | sed 's/^[0-9]*: \([^:@]*\).*/\1/' | while read -r link; do
        ip link delete "$link" 2>/dev/null
    done
    for link in $LINKS; do
        ip link show "$link" >/dev/null 2>&1 && ip link delete "$link"
    done
}

# Routes to the pods of other machines, which flannel leaves behind where it needs no link of its own.
remove_routes() {
    [ -r /run/flannel/subnet.env ] && command -v ip >/dev/null || return 0
    sed -n 's/^FLANNEL_\(IPV6_\)*NETWORK=//p' /run/flannel/subnet.env | while read -r network; do
        case "$network" in *:*) family=-6 ;; *) family=-4 ;; esac
        ip "$family" route show root "$network" | while read -r route; do
            # shellcheck disable=SC2086
            ip "$family" route delete $route 2>/dev/null
        done
    done
}

remove_rules() {
    for tables in iptables ip6tables; do
        command -v "$tables-save" >/dev/null || continue
        rules=$("$tables-save" 2>/dev/null) || continue
        case "$rules" in
        *KUBE-* | *CNI-* | *FLANNEL* | *flannel*) ;;
        *) continue ;;
        esac
        echo "$rules" | grep -v -e KUBE- -e CNI- | grep -v -i flannel | "$tables-restore"
    done
    if command -v ipset >/dev/null; then
        ipset list -n 2>/dev/null | grep '^\(inet6:\)*KUBE-' | while read -r set; do
            ipset destroy "$set" 2>/dev/null
        done
    fi
}

remove_groups() {
    [ -d /sys/fs/cgroup ] || return 0
    find /sys/fs/cgroup -depth -type d -path '*kubepods*' -exec rmdir {} \; 2>/dev/null
}

stop() {
    end_pods
    unmount_pods
    remove_routes
    remove_links
    remove_rules
    remove_groups
    return 0
}

# Sockets of shims, unless there is a containerd that is not k3s's.
remove_sockets() {
    [ -d /run/containerd ] || return 0
    for name in /proc/[0-9]*/comm; do
        case "$(cat "$name" 2>/dev/null)" in
        containerd | dockerd) return 0 ;;
        esac
    done
    remove /run/containerd
}

is_there() {
    [ -e "$1" ] || [ -h "$1" ]
}

# Whether a path is kept itself.
is_kept() {
    while IFS= read -r kept; do
        [ "$kept" != "$1" ] || return 0
    done <<KEPT
$KEEP
KEPT
    return 1
}

# Whether something below a path is kept.
holds_kept() {
    while IFS= read -r kept; do
        case "$kept" in
        "$1"/*) is_there "$kept" && return 0 ;;
        esac
    done <<KEPT
$KEEP
KEPT
    return 1
}

# Whether a path is gone but for what is kept, or empty because something of the machine's own is mounted there.
is_gone() {
    is_there "$1" || return 0
    is_kept "$1" && return 0
    if ! holds_kept "$1"; then
        [ -d "$1" ] && [ ! -h "$1" ] && [ -z "$(ls -A "$1")" ]
        return
    fi
    [ ! -h "$1" ] || return 0
    for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
        is_gone "$entry" || return 1
    done
}

# Removes a path but for what is kept. Follows no symbolic link, also not on the way to what is kept.
remove_tree() {
    is_there "$1" || return 0
    ! is_kept "$1" || return 0
    if holds_kept "$1"; then
        [ ! -h "$1" ] || return 0
        for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
            remove_tree "$entry"
        done
        rmdir "$1" 2>/dev/null
        return 0
    fi
    rm -rf --one-file-system "$1" 2>/dev/null
    # A mounted disk stays where it is, empty.
    [ ! -d "$1" ] || [ -h "$1" ] || find "$1" -xdev -mindepth 1 -delete 2>/dev/null
    return 0
}

# Removes a folder, unless something is mounted in it. A mount of a volume may be on the same file system as the folder, and
# nothing that deletes files sees the border then: the volume would be deleted through it.
remove() {
    is_there "$1" || return 0
    if [ -h "$1" ]; then
        say "$1 is a symbolic link: remove it, and what it leads to, by hand"
        return 1
    fi
    found=$(mounts_below "$1/" | while read -r path; do
        path=$(printf '%b' "$path")
        is_safe "$path" || printf '%s ' "$path"
    done)
    if [ -n "$found" ]; then
        say "$1 is left as it is, because something is still mounted in it: $found"
        return 1
    fi
    remove_tree "$1"
}

# Whether a path is kept, or below what is kept, so that nothing is deleted there.
is_safe() {
    while IFS= read -r kept; do
        [ -n "$kept" ] || continue
        case "$1" in
        "$kept" | "$kept"/*) return 0 ;;
        esac
    done <<KEPT
$KEEP
KEPT
    return 1
}

# Removes what the user has named.
wipe() {
    failed=0
    while IFS= read -r wiped; do
        [ -n "$wiped" ] || continue
        remove "$wiped" || failed=1
        is_gone "$wiped" || { say "$wiped is still there"; failed=1; }
    done <<WIPED
$WIPE
WIPED
    return "$failed"
}

# For the agent: what stays on purpose.
tell_kept() {
    ! is_there "$DATA" || echo "keeps $DATA"
    while IFS= read -r kept; do
        [ -z "$kept" ] || ! is_there "$kept" || echo "keeps $kept"
    done <<KEPT
$KEEP
KEPT
}

clean() {
    stop
    # Fail closed: a table that cannot be read looks like one without mounts.
    if [ -z "$(mounts_below /)" ]; then
        say "$MOUNTS says nothing, so nothing is removed: it is not known what is mounted"
        return 1
    fi
    left=0
    for folder in $FOLDERS; do
        remove "$folder" || left=1
    done
    wipe || left=1
    remove_sockets || left=1
    # Empty folders that may have been somebody else's.
    for folder in "$DATA/storage" "$DATA" /var/lib/rancher /etc/rancher /run/netns "$PLUGINS/volume/exec" \
        "$PLUGINS/volume" "$PLUGINS" "${PLUGINS%/*}"; do
        is_kept "$folder" || rmdir "$folder" 2>/dev/null
    done
    for folder in $FOLDERS; do
        is_gone "$folder" || { say "$folder is still there"; left=1; }
    done
    for shim in $(shims); do
        say "process $shim still runs"
        left=1
    done
    for link in $LINKS; do
        [ ! -e "/sys/class/net/$link" ] || { say "network interface $link is still there"; left=1; }
    done
    [ "$left" -ne 0 ] || tell_kept
    return "$left"
}

vacant() {
    for path in $STATE; do
        if [ -e "$path" ]; then
            say "$path is there: this machine has a k3s that Capstan did not set up; take it off, or use another machine"
            return 1
        fi
    done
}

room() {
    mkdir -p "$DATA" && chmod 0755 "$DATA"
}

# KIND K3S NODE
ready() {
    case "$1" in
    server) unit=k3s config=/etc/rancher/k3s/k3s.yaml path=/readyz ;;
    agent) unit=k3s-agent config=$DATA/agent/kubelet.kubeconfig path=/api/v1/nodes/$3 ;;
    *) exit 64 ;;
    esac
    # Asking takes a program as large as k3s: not before it says itself that it is up.
    if ! systemctl is-active --quiet "$unit"; then
        say "$unit is $(systemctl show --property=ActiveState --property=SubState --value "$unit" | tr '\n' ' ')"
    elif [ ! -s "$config" ]; then
        say "$unit has not written $config yet"
    elif answer=$("$2" kubectl --kubeconfig "$config" get --raw "$path" 2>&1); then
        return 0
    else
        say "$answer"
    fi
    if [ -e "$DATA/server/db/etcd/tombstone" ]; then
        say "this machine was removed from etcd and does not join again by itself"
    fi
    journalctl --unit "$unit" --no-pager --lines 15 --output cat >&2 2>/dev/null
    return 1
}

# BOOT_ID
rebooted() {
    now=$(cat /proc/sys/kernel/random/boot_id) && [ -n "$now" ] && [ "$now" != "$1" ]
}

# BOOT_ID
reboot() {
    rebooted "$1" && return 0
    systemctl reboot || return 1
    # Neither success nor failure: the machine ends this process.
    sleep 570
    say "the machine still runs, although systemd was told to reboot it"
    return 1
}

case "${1-}" in
vacant | room | stop | clean) "$1" ;;
ready) ready "${2-}" "${3-}" "${4-}" ;;
rebooted | reboot)
    [ -n "${2-}" ] || exit 64
    "$1" "$2"
    ;;
*)
    say "usage: k3s.sh vacant|room|ready|rebooted|reboot|stop|clean"
    exit 64
    ;;
esac
