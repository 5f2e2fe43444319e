package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"

	"github.com/perdure/perdure"
)

// TestToolForms: the API refuses combinations at the root of a schema and everything that is not
// valid in draft 2020-12, for all tools of a request. They are sent in another form, with their
// properties; a tool that it refuses all the same is described more simply in the next attempt, and
// in the end left out (cloudflare/mcp-server-cloudflare#224, zereight/gitlab-mcp#552,
// Dokploy/mcp#74).
func TestToolForms(t *testing.T) {
	t.Parallel()
	var sent []map[string]any // of the last request
	refused := "never"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req struct {
			Tools []map[string]any `json:"tools"`
		}
		if err := json.Unmarshal(body, &req); err != nil {
			t.Error(err)
		}
		sent = req.Tools
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		why := "messages: at least one is required" // so that no answer must be played
		for i, one := range req.Tools {
			if one["name"] == refused {
				why = fmt.Sprintf("tools.%d.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12", i)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": "invalid_request_error", "message": why}})
	}))
	t.Cleanup(server.Close)
	m, err := anthropic.New(anthropic.Config{Name: "claude-x", BaseURL: server.URL, HTTP: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	tools := []model.Tool{
		{Name: "plain", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)},
		{Name: "odd", Parameters: json.RawMessage(`{"type":"object","oneOf":[{"properties":{"a":{"$ref":"#/$defs/s"}},"required":["a"]},` +
			`{"properties":{"b":{"type":"integer","minimum":0,"exclusiveMinimum":true}},"required":["b"]}],"$defs":{"s":{"type":"string","description":"what"}}}`)},
	}
	ask := func() *model.Error {
		_, err := model.Collect(m.Stream(t.Context(), model.Request{Messages: []perdure.Message{perdure.Text("go")}, Tools: tools}), nil)
		var e *model.Error
		if !errors.As(err, &e) {
			t.Fatalf("got %v", err)
		}
		return e
	}
	if e := ask(); e.Code != model.Misconfigured {
		t.Errorf("got %v", e)
	}
	schema, _ := json.Marshal(sent[1]["input_schema"])
	if want := `{"description":"Exactly one of these is required: a, or b.","properties":{"a":{"description":"what","type":"string"},"b":{"exclusiveMinimum":0,"minimum":0,"type":"integer"}},"type":"object"}`; string(schema) != want {
		t.Errorf("got  %s\nwant %s", schema, want)
	}
	refused = "odd"
	for range 3 {
		if e := ask(); !e.Again || !strings.Contains(e.Text, "odd") {
			t.Errorf("got %v", e)
		}
	}
	if e := ask(); e.Code != model.Misconfigured || len(sent) != 1 || sent[0]["cache_control"] == nil {
		t.Errorf("got %v and %v", e, sent)
	}
}
