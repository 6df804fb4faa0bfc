# Undoes what was done under a claim, and looks whether anything is left. May be repeated from the beginning at any
# time. Given: the claim's folder, and what stands before every path.
dir=$1
root=$2
. "$dir/lib"
umask 077
hold reset
[ ! -e "$dir/reset.result" ] || exit 0
: >"$dir/reset.left"
left() { printf '%s\n' "$1" >>"$dir/reset.left"; }
was_there() { grep -qxF "$1" "$dir/before" 2>/dev/null; }
exec >>"$dir/reset.log" 2>&1 </dev/null

# The agent undoes what plans have done. What it says is kept: it may take itself off.
agent=$root/opt/capstan/capstan-agent
if [ -x "$agent" ] && [ ! -e "$dir/reset.agent" ]; then
	for _ in 1 2 3; do
		limit 1800 "$agent" reset --output json >"$dir/reset.agent.new" 9>&-
		code=$?
		[ "$code" -ne 0 ] || break
		sleep 2
	done
	if [ "$code" -eq 0 ]; then
		settle "$dir/reset.agent.new"
		mv "$dir/reset.agent.new" "$dir/reset.agent"
	else
		left "what the agent did: \`/opt/capstan/capstan-agent reset\` ended with exit code $code"
	fi
fi
[ ! -e "$dir/reset.agent" ] || tr -d '[:space:]' <"$dir/reset.agent" | grep -q '"clean":true' || left "what the agent did"

# What upstream's bootstrap data has started.
if [ -e "$dir/kubeadm" ]; then
	if has kubeadm; then
		limit 900 kubeadm reset --force 9>&- || left "what kubeadm did: \`kubeadm reset --force\` ended with exit code $?"
	fi
	for path in /etc/cni/net.d /var/lib/cni /etc/kubernetes /var/lib/kubelet /var/lib/etcd; do
		was_there "$path" || rm -rf --one-file-system "$root$path"
	done
fi

# What bootstrap data puts there to begin with.
if ! was_there /etc/systemd/system/capstan-agent.service &&
	[ -e "$root/etc/systemd/system/capstan-agent.service" ]; then
	[ -n "$root" ] || systemctl disable --now capstan-agent.service
	rm -f "$root/etc/systemd/system/capstan-agent.service"
	[ -n "$root" ] || systemctl daemon-reload
fi
for path in /opt/capstan /etc/capstan; do
	was_there "$path" || rm -rf --one-file-system "$root$path"
done
claim=${dir##*/}
[ ! -e "$dir/cloud-init" ] || rm -rf --one-file-system "$root/var/lib/cloud/instances/$claim"
[ ! -e "$dir/cloud-init.new" ] || rm -rf --one-file-system "$root/var/lib/cloud"
sentinel=$(cat "$dir/sentinel" 2>/dev/null)
[ -z "$sentinel" ] || rm -f "$root$sentinel"

if [ -e "$dir/ledger/users" ]; then
	while read -r name; do
		! id -u "$name" >/dev/null 2>&1 || userdel -r "$name"
		! id -u "$name" >/dev/null 2>&1 || left "user $name"
	done <"$dir/ledger/users"
fi

# Keys of users that were there before. The others went with their home folder.
for found in "$dir/ledger/keys"/*.found; do
	name=${found##*/}
	name=${name%.found}
	[ -e "$found" ] && id -u "$name" >/dev/null 2>&1 || continue
	read -r state mode home <"$found"
	as_user "$name" "$undo_keys" "$root$home" "$state" "$mode" <"${found%.found}.content" ||
		left "$home/.ssh/authorized_keys, which was not put back"
done

# Files as they were, the last one first.
if [ -e "$dir/ledger/index" ]; then
	sort -rn "$dir/ledger/index" >"$dir/ledger/backwards"
	while read -r number path; do
		target=$root$path
		saved=$dir/ledger/$number
		if [ -L "$saved" ] || [ -e "$saved" ]; then
			rm -f "$target.capstan-new"
			if [ -d "${target%/*}" ] && cp -pP "$saved" "$target.capstan-new"; then
				mv -f "$target.capstan-new" "$target"
			fi
			if [ -L "$saved" ]; then
				[ "$(readlink "$saved")" = "$(readlink "$target")" ] || left "$path, which was not put back"
			else
				[ ! -L "$target" ] && cmp -s "$saved" "$target" || left "$path, which was not put back"
			fi
		else
			rm -f "$target" "$target.capstan-new"
			[ ! -e "$target" ] && [ ! -L "$target" ] || left "$path"
		fi
	done <"$dir/ledger/backwards"
fi
if [ -e "$dir/ledger/folders" ]; then
	# The deepest first.
	sort -ru "$dir/ledger/folders" >"$dir/ledger/backwards"
	while read -r path; do
		rmdir "$root$path" 2>/dev/null
		[ ! -d "$root$path" ] || left "$path, which is not empty"
	done <"$dir/ledger/backwards"
fi

if [ -e "$dir/packages" ]; then
	list_packages >"$dir/packages.now"
	comm -13 "$dir/packages" "$dir/packages.now" >"$dir/packages.new"
	while read -r name; do left "package $name, which was not there before"; done <"$dir/packages.new"
fi
for path in $(cat "$dir/watched"); do
	was_there "$path" || [ ! -e "$root$path" ] || left "$path"
done
if [ -e "$dir/lasting" ]; then
	while read -r what; do left "$what"; done <"$dir/lasting"
fi
if [ -s "$dir/reset.left" ]; then end reset dirty; else end reset clean; fi
