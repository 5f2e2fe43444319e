package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/perdure/perdure/examples/payments"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

// clerk answers the prompt with one call of each tool, and says when the background run has ended.
// The second line of the prompt is the id of an image.
const clerk = `
rules:
  - when: {last_role: notification}
    text: "It is packed: {{note}}"
  - when: {last_role: tool_result}
    text: It is ordered.
  - when: {last_role: user, last_contains: image_}
    calls:
      - {name: web_fetch, args: {url: "%s/account", headers: {x-key: "secret:SHOP_KEY"}}}
      - {name: view_image, args: {image_id: "{{index (lines user) 1}}"}}
      - {name: write_file, args: {path: /order.md, content: "one teapot\n"}}
      - {name: shop__charge, args: {amount: 5}}
      - {name: shop__pack, args: {}}
steps:
  - {text: ready, repeat: true}
`

// shopProgram is an MCP server with two tools: charge answers at once, and pack once a file exists.
const shopProgram = `say() { printf '%%s\n' "$1"; }
while read -r line; do
	id=$(say "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\("[^"]*"\|[0-9]*\).*/\1/p')
	case $line in
	*'"method":"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shop","version":"1"}}}' ;;
	*'"method":"tools/list"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"charge","inputSchema":{"type":"object"}},{"name":"pack","inputSchema":{"type":"object"}}]}}' ;;
	*'"method":"tools/call"'*'"name":"pack"'*)
		(until [ -e '%[1]s' ]; do sleep 0.05; done; say '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"in the box"}]}}') & ;;
	*'"method":"tools/call"'*)
		echo charged >>'%[1]s.charged'
		say '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"charged"}]}}' ;;
	*) [ -z "$id" ] || say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"not here"}}' ;;
	esac
done
`

// TestEndToEnd sets up a provider, a default model, an agent with a budget for one tool and a cap,
// a secret for a host, an image and a priced tool in an empty home. One prompt uses all of them, by
// commands and by requests.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	for number, function := range []string{"by_command", "by_request"} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			const modelKey, shopKey = "k-of-the-house", "zq-key-of-the-shop"
			packed := filepath.Join(t.TempDir(), "packed")
			var paidFor atomic.Int32
			wallet := &payments.Wallet{Authorization: "Bearer w4llet"}
			shop := http.NewServeMux()
			shop.Handle("/pay", wallet)
			shop.HandleFunc("/account", func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Key") == shopKey {
					paidFor.Add(1)
				}
				_, _ = fmt.Fprintln(w, "a customer")
			})
			sells := httptest.NewServer(shop)
			t.Cleanup(sells.Close)
			model, err := scripted.Parse("clerk", fmt.Appendf(nil, clerk, sells.URL))
			if err != nil {
				t.Fatal(err)
			}
			thinks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+modelKey {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				openaitest.New(model, openaitest.Config{}).ServeHTTP(w, r)
			}))
			t.Cleanup(thinks.Close)

			home, data := newShopHome(t, packed, sells.URL)

			said := playScript(t, home, function, "MODEL_URL="+thinks.URL+"/v1", "MODEL_KEY="+modelKey, "SHOP_URL="+sells.URL,
				"SHOP_KEY="+shopKey, "PACKED="+packed, "SHOP_WALLET=w4llet",
				fmt.Sprintf("PERDURE_ADDR=127.%d.%d.%d:7373", 121+number, os.Getpid()>>8&0xff, os.Getpid()&0xff))

			for _, want := range []string{"It is ordered.", "It is packed", "in the box", "0.25", "shop__charge", "/order.md", "one teapot", "teapot.png",
				`"image_file"`, "a customer", "secret:SHOP_KEY", "tool.detached"} {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not in the output", want)
				}
			}
			wantLines(t, packed+".charged", 1)
			if paid := wallet.Made(); paidFor.Load() != 1 || len(paid) != 1 {
				t.Errorf("the shop knew the customer %d times, and the wallet paid %v", paidFor.Load(), paid)
			}
			place{t: t, data: data}.noneIn(modelKey, shopKey, "w4llet")
			for _, secret := range []string{modelKey, shopKey, "w4llet"} {
				if strings.Contains(said, secret) {
					t.Errorf("%q is shown", secret)
				}
			}
			if strings.Contains(said, `"level":`) {
				t.Error("a log line is between the output of the commands")
			}
			if t.Failed() {
				t.Logf("it printed:\n%s", said)
			}
		})
	}
}

// newShopHome creates a home with a picture, and with the files of the data directory that a person
// writes: the MCP server of the shop with the price of a tool, and who pays.
func newShopHome(t *testing.T, packed, shop string) (home, data string) {
	t.Helper()
	home = t.TempDir()
	data = filepath.Join(home, ".local/share/perdure")
	picture, err := base64.StdEncoding.DecodeString(dotPNG)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(home, "teapot.png"): string(picture),
		packed + ".sh":                    fmt.Sprintf(shopProgram, packed),
		filepath.Join(data, "mcp.json"): fmt.Sprintf(`{"mcpServers": {"shop": {"command": "sh", "args": [%q],
			"prices": {"charge": {"amount": "0.25", "currency": "usd", "host": "shop.example.com"}}}}}`, packed+".sh"),
		filepath.Join(data, "payments.json"): fmt.Sprintf(`{"wallet": {"url": %q, "authorization": "Bearer ${SHOP_WALLET}"},
			"capabilities": ["mcp_shop"], "hosts": ["shop.example.com"], "caps": {"usd": {"per_request": "1", "per_turn": "2", "per_day": "5", "approve_above": "0.50"}}}`, shop+"/pay"),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home, data
}

// playScript runs a function of endtoend.bash in a home, and returns everything that it printed.
func playScript(t *testing.T, home, function string, env ...string) string {
	t.Helper()
	root, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pageTime)
	defer cancel()
	t.Cleanup(func() { killCommands(filepath.Join(home, ".local/share/perdure")) })
	cmd := exec.CommandContext(ctx, "bash", "-c", fmt.Sprintf("BLOCK=0; . %[1]s/pages.bash; . %[1]s/endtoend.bash; %[2]s", root, function))
	cmd.Dir = home
	cmd.Env = append(append(plainEnv(), env...), "HOME="+home, "TMPDIR="+home, "FAILED="+filepath.Join(home, "failed.tsv"), "GORACE=atexit_sleep_ms=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that the server ends with it, however it ends
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		t.Errorf("%v", err)
	}
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there may be no process left
	}
	return out.String()
}
