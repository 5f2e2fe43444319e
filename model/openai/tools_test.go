package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
)

// oddTool has a schema that strict servers refuse: choices at the root, references, no types.
func oddTool(name string) model.Tool {
	return model.Tool{Name: name, Description: "Picks.", Parameters: json.RawMessage(`{"properties":{"q":{"$ref":"#/$defs/s"},"n":{"type":"array"}},` +
		`"anyOf":[{"required":["q"]},{"required":["n"]}],"$defs":{"s":{"type":"string","description":"what"}}}`)}
}

// sentTool is a tool in a request.
type sentTool struct {
	Function struct {
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters"`
	} `json:"function"`
}

// readTools returns the tools of a request.
func readTools(t *testing.T, body []byte) []sentTool {
	t.Helper()
	var sent struct {
		Tools []sentTool `json:"tools"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Error(err)
	}
	return sent.Tools
}

// refusedForm refuses what strict servers refuse.
func refusedForm(one sentTool) string {
	p := one.Function.Parameters
	text := fmt.Sprint(p)
	switch {
	case p["type"] != "object" || p["properties"] == nil:
		return "schema must be of type object with properties"
	case p["anyOf"] != nil || p["oneOf"] != nil || p["allOf"] != nil:
		return "schema must not have anyOf, oneOf or allOf at the top level"
	case strings.Contains(text, "$ref") || strings.Contains(text, "$defs"):
		return "reference to undefined schema"
	case strings.Contains(text, "type:array") && !strings.Contains(text, "items:"):
		return "array schema missing items"
	}
	return ""
}

// TestToolForms: the schema of a tool is sent in a form that strict servers accept, and keeps its
// properties and descriptions (google-gemini/gemini-cli#13326, garrytan/gbrain#1028).
func TestToolForms(t *testing.T) {
	t.Parallel()
	box := sent(t, openai.Config{}, model.Request{Messages: []perdure.Message{perdure.Text("go")}, Tools: []model.Tool{oddTool("pick")}})
	one := readTools(t, box.body)[0]
	if why := refusedForm(one); why != "" || !strings.Contains(fmt.Sprint(one.Function.Parameters), "description:what") {
		t.Errorf("%s: %v", why, one.Function.Parameters)
	}
}

// TestToolsAreLearnt: what a server says about tools is learnt. The next request has fewer tools,
// or describes the refused one more simply.
func TestToolsAreLearnt(t *testing.T) {
	t.Parallel()
	var requests int
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		body, _ := io.ReadAll(r.Body)
		why := ""
		tools := readTools(t, body)
		for _, one := range tools {
			if one.Function.Name == "pick" && strings.Contains(fmt.Sprint(one.Function.Parameters), "items:map[]") {
				why = "Invalid schema for function 'pick': items must have a type"
			}
		}
		if len(tools) > 100 {
			why = fmt.Sprintf("Invalid 'tools': array too long. Expected an array with maximum length 100, but got an array with length %d instead.", len(tools))
		}
		if why != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": why, "type": "invalid_request_error"}})
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(stream(delta(`{"content":"x"}`), finish("stop")))
	})
	m := serve(t, server, openai.Config{})
	if m.MaxTools("", "") != 128 {
		t.Errorf("at first %d tools", m.MaxTools("", ""))
	}
	ask := func(n int) error {
		req := model.Request{Messages: []perdure.Message{perdure.Text("go")}, Tools: []model.Tool{oddTool("pick")}}
		for i := range n - 1 {
			req.Tools = append(req.Tools, model.Tool{Name: fmt.Sprintf("other_%d", i)})
		}
		_, err := model.Collect(m.Stream(t.Context(), req), nil)
		return err
	}
	var e *model.Error
	if err := ask(101); !errors.As(err, &e) || !e.Again || m.MaxTools("", "") != 100 {
		t.Errorf("101 tools: %v, then at most %d", err, m.MaxTools("", ""))
	}
	if err := ask(100); !errors.As(err, &e) || !e.Again || !strings.Contains(e.Text, "describes pick more simply") {
		t.Errorf("the refused schema: %v", err)
	}
	if err := ask(100); err != nil || requests != 3 {
		t.Errorf("got %v after %d requests", err, requests)
	}
}
