package mcptool_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool/mcptool"
)

// precise is what a server says with numbers that a float cannot hold.
const precise = `{"id":12345678901234567890,"ratio":0.1234567890123456789}`

// TestNumbersStayAsTheyAre: what a server structured is what it wrote, on either way to it.
func TestNumbersStayAsTheyAre(t *testing.T) {
	t.Parallel()
	result := `{"content":[{"type":"text","text":"x"}],"structuredContent":` + precise + `,"_meta":{"at":9007199254740993}}`
	for name, does := range map[string]func(t *testing.T) *mcptool.Remote{
		"stdio": func(t *testing.T) *mcptool.Remote {
			return keepShell(t, speaks(`say '{"jsonrpc":"2.0","id":"'$id'","result":`+result+`}'`)).does(t, perdure.AtMostOnce)
		},
		"HTTP": func(t *testing.T) *mcptool.Remote {
			_, url := plainServer(t, defined("does", `{"type":"object"}`), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{StructuredContent: json.RawMessage(precise), Meta: mcp.Meta{"at": json.RawMessage("9007199254740993")}}, nil
			})
			c, err := mcptool.Open(t.Context(), mcptool.Config{URL: url, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(false) })
			all, err := mcptool.Tools(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return all[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, does(t), "k")
			if got, _ := json.Marshal(r.Value); !strings.Contains(string(got), precise) || !strings.Contains(string(got), "9007199254740993") {
				t.Errorf("got %s %s", got, r.Text)
			}
		})
	}
}
