package mcpserver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool/mcptool"
)

// overheard is all that a server was sent: headers and bodies.
type overheard struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (o *overheard) note(r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what cannot be read was not sent
	r.Body = io.NopCloser(bytes.NewReader(body))
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(&o.text, "%s %v\n%s\n", r.URL, r.Header, body)
}

func (o *overheard) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// TestS15TokenPassthrough: whatever a client shows us so that we know it, a server behind us does
// not see: not its token, nor its other credentials, whichever wire it speaks. The call itself
// comes through.
func TestS15TokenPassthrough(t *testing.T) {
	t.Parallel()
	const token, cookie, custom = "token-of-ours-1234", "cookie-of-ours-5678", "key-of-ours-9012"
	behind := mcp.NewServer(&mcp.Implementation{Name: "behind", Version: "1"}, nil)
	mcp.AddTool(behind, &mcp.Tool{Name: "work"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Word string `json:"word"`
	}) (*mcp.CallToolResult, object, error) {
		return nil, object{"did": in.Word}, nil
	})
	serves := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return behind }, &mcp.StreamableHTTPOptions{Stateless: true})
	var heard overheard
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard.note(r)
		serves.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	client, err := mcptool.Open(t.Context(), mcptool.Config{URL: web.URL, HTTP: web.Client()})
	if err != nil {
		t.Fatal(err)
	}
	remotes, err := mcptool.Tools(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(true) }) // the test is over
	r := newRig(t, mcpserver.Config{
		Tools:  []mcpserver.Exposed{{Name: "work", Verbatim: true, Definition: remotes[0].Definition()}},
		Verify: func(context.Context, string) (mcpserver.Principal, error) { return mcpserver.Principal{ID: "p"}, nil },
	}, remotes[0])
	shows := questionPart{as: token, header: map[string]string{"Cookie": "sid=" + cookie, "X-Api-Key": custom, "Proxy-Authorization": "Basic " + custom}}
	withTasks := shows
	withTasks.tasks = true

	plain := r.call(shows, "work", object{"word": "w1"}, nil)
	r.until(withTasks, r.call(withTasks, "work", object{"word": "w2"}, nil)["taskId"].(string), "completed")
	a, _ := r.legacy(shows)
	old := r.older(a, "tools/call", object{"name": "work", "arguments": object{"word": "w3"}}).Result

	if !strings.Contains(textOf(plain), "w1") || !strings.Contains(textOf(old), "w3") {
		t.Errorf("got %v and %v", plain, old)
	}
	sent := heard.all()
	for _, word := range []string{"w1", "w2", "w3"} {
		if !strings.Contains(sent, word) {
			t.Errorf("the server was not sent %s", word)
		}
	}
	for _, secret := range []string{token, cookie, custom, "Authorization"} {
		if strings.Contains(sent, secret) {
			t.Errorf("the server was sent %s: %s", secret, sent)
		}
	}
}
