package mcptool_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure/tool/mcptool"
)

// listingServer is a server of 2025-11-25 over HTTP whose list of tools has the given form. page
// returns the result of tools/list for a cursor.
func listingServer(t *testing.T, contentType string, page func(cursor string) string) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Cursor string `json:"cursor"`
			} `json:"params"`
		}
		if json.Unmarshal(body, &m) != nil || len(m.ID) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		answer := `"error":{"code":-32601,"message":"no such method"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}`
		case "tools/list":
			answer = `"result":` + page(m.Params.Cursor)
		}
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
		if contentType == "text/event-stream" {
			text = "data: " + text + "\n\n"
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestListings: a list ends even if the server's cursors do not, and an odd tool costs no other.
func TestListings(t *testing.T) {
	t.Parallel()
	one := func(name string) string { return `{"name":"` + name + `","inputSchema":{"type":"object"}}` }
	for name, c := range map[string]struct {
		page func(cursor string) string
		want string
	}{
		"a cursor that stands still (DeusData/codebase-memory-mcp#1247)": {
			func(string) string { return `{"tools":[` + one("a") + `],"nextCursor":"8"}` }, "a"},
		"cursors in a circle (PrefectHQ/fastmcp#3167)": {func(cursor string) string {
			return map[string]string{
				"": `{"tools":[` + one("a") + `],"nextCursor":"x"}`, "x": `{"tools":[` + one("b") + `],"nextCursor":"y"}`,
				"y": `{"tools":[` + one("c") + `],"nextCursor":"x"}`,
			}[cursor]
		}, "a b c"},
		"ever new cursors": {func(cursor string) string {
			return fmt.Sprintf(`{"tools":[%s],"nextCursor":"%sx"}`, one("a"), cursor)
		}, "a"},
		"an empty cursor (modelcontextprotocol/java-sdk#628)": {func(string) string { return `{"tools":[` + one("a") + `],"nextCursor":""}` }, "a"},
		"an odd field of one tool": {func(string) string {
			return `{"tools":[{"name":"a","title":1,"annotations":{"readOnlyHint":"yes"},"outputSchema":[],"inputSchema":null},` + one("b") + `]}`
		}, "a b"},
		"a tool without a name": {func(string) string { return `{"tools":[{"description":"none"},` + one("b") + `]}` }, "b"},
	} {
		for _, contentType := range []string{"application/json", "text/event-stream"} {
			t.Run(name+" as "+contentType, func(t *testing.T) {
				t.Parallel()
				url := listingServer(t, contentType, c.page)
				client, err := mcptool.Open(t.Context(), mcptool.Config{URL: url, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close(true)
				defs, err := client.Definitions(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, def := range defs {
					names = append(names, def.Name)
				}
				if got := strings.Join(names, " "); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		}
	}
}
