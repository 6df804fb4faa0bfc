# Tells the agent which management plane to obey. Given: the claim, and what it is told. The agent decides.
if [ ! -d "$dir" ] || [ -e "$dir/reset" ]; then
	say failed "$dir is not there, or is being undone: the machine of this claim is not on the host"
	return 0
fi
agent=$root/opt/capstan/capstan-agent
if [ ! -x "$agent" ]; then
	say failed "there is no agent at /opt/capstan/capstan-agent"
	return 0
fi
if said=$(printf '%s' "$told" | base64 -d | "$agent" follow --output json 2>&1); then
	printf '%s' "$said" | tail -n 1 | text said
else
	say failed "$(printf '%s' "$said" | tail -n 3)"
fi
