# Functions for the pages that pages_test.go runs. FAILED, PERDURE_ADDR and MODULE are set.

trap 'printf "%s\t%s\t%s\n" "$BLOCK" "$?" "${BASH_COMMAND%%$'"'\n'"'*}" >> "$FAILED"' ERR

# A refused request fails; a stream that --max-time cuts does not.
curl() {
	local code=0
	command curl -s --fail-with-body "$@" || code=$?
	((code == 28)) || return "$code"
}

# served COMMAND… starts a server in the background, and waits until it is ready. It replaces an earlier one.
served() {
	stopped
	"$@" > "$HOME/serve.log" 2>&1 &
	SERVER=$!
	command curl -s --retry 100 --retry-delay 1 --retry-connrefused -o "$HOME/readyz" "http://$PERDURE_ADDR/readyz"
	T=$(cat "${PERDURE_DATA:-$HOME/.local/share/perdure}/token")
	TOKEN=$T P=http://$PERDURE_ADDR
}

stopped() {
	[[ -n ${SERVER:-} ]] || return 0
	kill "$SERVER" 2> "$HOME/kill.log"
	wait "$SERVER"
	SERVER=
}

# followed COMMAND… runs a following command for a while, and stops it.
followed() {
	local code=0
	timeout 2 "$@" || code=$?
	((code == 124)) || return "$code"
}

# until_so COMMAND… repeats a command until it succeeds with output, and prints the output.
until_so() {
	local tries=0 text
	until text=$("$@" 2> "$HOME/until.log") && [[ -n $text ]]; do
		((++tries < 100)) || return 1
		sleep 0.1
	done
	printf '%s\n' "$text"
}

# waiting starts a session of the tutorial's agent with a task that waits for ten minutes: $SESSION, $TASK.
waiting() {
	[[ -n ${SERVER:-} ]] || served perdure serve
	SESSION=$(perdure session new --model scripted:examples/scripts/tutorial.yaml --capability bashkit_shell --workspace "$PWD" -o name)
	perdure session send "$SESSION" "Please wait."
	TASK=$(until_so perdure task list --session "$SESSION" --state running,awaiting_input -o name)
	session_01a1=$SESSION task_01a1=$TASK
	until_so perdure task log "$TASK"
}

# calling COMMAND starts a session whose turn calls that command: $SESSION, $CALL.
calling() {
	[[ -n ${SERVER:-} ]] || served perdure serve
	printf "steps: [{calls: [{name: bash, args: {command: '%s'}}]}, {text: Done., repeat: true}]\n" "$1" > "$HOME/calling.yaml"
	SESSION=$(perdure session new --model "scripted:$HOME/calling.yaml" --capability bashkit_shell --workspace "$PWD" -o name)
	perdure session send "$SESSION" "Do it."
	CALL=$(until_so perdure event list "$SESSION" --type tool.started --jq '.[] | .call_id')
	call_01a1=$CALL
}

# asking starts a session in which a call of bash needs approval: $ID, $DIGEST.
asking() {
	[[ -n ${SERVER:-} ]] || served perdure serve --ask bash
	printf 'steps: [{calls: [{name: bash, args: {command: "true"}}]}, {text: Done., repeat: true}]\n' > "$HOME/asking.yaml"
	SESSION=$(perdure session new --model "scripted:$HOME/asking.yaml" --capability bashkit_shell --workspace "$PWD" -o name)
	perdure session send "$SESSION" "Do it."
	ID=$(until_so perdure approval list --session "$SESSION" -o name)
	DIGEST=$(perdure approval show "$ID" --jq .args_digest)
}

# questions starts a session in which a tool of an MCP server asks for a color: $TASK, $REQUEST.
questions() {
	local data=${PERDURE_DATA:-$HOME/.local/share/perdure}
	if [[ ! -e $data/mcp.json ]]; then
		printf '{"mcpServers": {"world": {"command": "mcpfixture", "args": ["%s"]}}}' "$HOME" > "$data/mcp.json"
		served perdure serve
	fi
	printf 'steps: [{calls: [{name: world__work_slowly, args: {name: elicitation/create}}]}, {text: Done., repeat: true}]\n' > "$HOME/questions.yaml"
	SESSION=$(perdure session new --model "scripted:$HOME/questions.yaml" --capability mcp_world -o name)
	perdure session send "$SESSION" "Do it."
	TASK=$(until_so perdure task list --session "$SESSION" --state awaiting_input -o name)
	task_01a1=$TASK
	REQUEST=$(perdure task show "$TASK" --jq .input_request.id)
}

# supervised prints the supervisors of the running commands.
supervised() { perdure doctor --processes -o json | grep -A8 '"state": *"alive"' | grep -oE '"supervisor": *[0-9]+' | grep -oE '[0-9]+'; }

# cut_off kills everything of a running call or task: the server, the command's supervisor and the command, and starts a
# server again. The supervisor is killed first, since it would otherwise record the result of the command.
cut_off() {
	until_so supervised
	kill -9 "$SERVER"
	wait "$SERVER" 2> "$HOME/wait.log"
	SERVER=
	supervised | xargs kill -9
	served perdure serve
}

trap stopped EXIT
