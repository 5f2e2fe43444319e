# One person sets everything up, and one prompt uses all of it: a provider and the default model, an agent with a budget
# of its own for one tool and a cap, a secret for one host, an image, a priced tool of an MCP server. by_command does it
# with commands, by_request with HTTP requests to a server. MODEL_URL, MODEL_KEY, SHOP_URL, SHOP_KEY, PACKED and, for
# by_request, PERDURE_ADDR are set; payments.json and mcp.json are in the data directory.
set -euo pipefail

prompt="Order what you see, and note it."

by_command() {
	echo "$MODEL_KEY" | perdure provider set house --kind openai --base-url "$MODEL_URL"
	perdure provider test house/clerk
	perdure model default house/clerk
	perdure egress allow --private "${SHOP_URL#http://}"

	cat > clerk.yaml <<-'EOF'
		name: clerk
		system_prompt: You order what people show you.
		tools: [web_fetch, write_file]
		capabilities: [session_images, mcp_shop]
		limits:
		  slots_per_session: 2
		  soft_budgets_ms: {shop__pack: 200}
	EOF
	perdure agent apply clerk.yaml
	local session image
	session=$(perdure session new --agent clerk -o name)
	echo "$SHOP_KEY" | perdure secret set "$session" SHOP_KEY --host 127.0.0.1
	image=$(perdure image put "$session" teapot.png -o name)

	perdure session send "$session" --image "$image" --wait "$prompt"$'\n'"$image" &
	local working=$!
	until_so perdure task list --session "$session" --state running -o name
	until_so ordered "$session" # otherwise the model could read the end of the task together with the results
	touch "$PACKED"
	wait "$working"

	perdure task list --session "$session" --state succeeded
	perdure payment list --session "$session" --state paid -o json --jq '.[] | [.amount, .currency, .tool]'
	perdure file grep "$session" teapot
	perdure image list "$session"
	perdure event list "$session" -o jsonl
}

by_request() {
	perdure egress allow --private "${SHOP_URL#http://}" # a setting of the machine, not of the API
	served perdure serve
	ask PUT /v1/providers/house -d '{"kind": "openai", "base_url": "'"$MODEL_URL"'", "key": "'"$MODEL_KEY"'"}'
	ask POST /v1/providers/house/test -d '{"model": "clerk"}'
	ask PUT /v1/models/default -d '{"name": "house/clerk"}'

	ask PUT /v1/agents/clerk -d '{
		"system_prompt": "You order what people show you.",
		"tools": ["web_fetch", "write_file"], "capabilities": ["session_images", "mcp_shop"],
		"limits": {"slots_per_session": 2, "soft_budgets_ms": {"shop__pack": 200}}}'
	local session image
	session=$(ask POST /v1/sessions -d '{"agent_id": "clerk"}' | field id session)
	ask PUT "/v1/sessions/$session/secrets/SHOP_KEY" -d '{"value": "'"$SHOP_KEY"'", "hosts": ["127.0.0.1"]}'
	image=$(ask POST "/v1/sessions/$session/images?filename=teapot.png" -H 'Content-Type: image/png' --data-binary @teapot.png | field id image)

	ask POST "/v1/sessions/$session/messages" -d '{"content": [
		{"type": "text", "text": "'"$prompt\\n$image"'"},
		{"type": "image_file", "image_file": {"id": "'"$image"'"}}]}'
	until_so asked '"state":"running"' "/v1/tasks?session=$session"
	until_so asked 'It is ordered.' "/v1/sessions/$session/events?limit=200" # as in by_command
	touch "$PACKED"
	until_so asked 'It is packed' "/v1/sessions/$session/events?limit=200"

	ask GET "/v1/tasks?session=$session&state=succeeded"
	ask GET "/v1/payments?session=$session&state=paid"
	ask GET "/v1/sessions/$session/files:grep?pattern=teapot"
	ask GET "/v1/sessions/$session/images"
	ask GET "/v1/sessions/$session/events?limit=200"
	stopped
}

# ordered SESSION prints the answer to the results of the calls, once it is there.
ordered() { perdure event list "$1" -o jsonl | grep -F "It is ordered."; }

# ask METHOD PATH [OPTION…] sends a request, and prints the response.
ask() {
	local method=$1 path=$2
	shift 2
	curl -X "$method" -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' "$P$path" "$@"
	echo
}

# asked TEXT PATH prints the response if it contains a text.
asked() { ask GET "$2" | grep -F "$1"; }

# field NAME KIND prints the first id of a kind that a JSON object has in a field.
field() { grep -oE "\"$1\": *\"$2_[0-9a-f]+\"" | head -1 | grep -oE "$2_[0-9a-f]+"; }
