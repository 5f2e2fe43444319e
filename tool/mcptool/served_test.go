package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

func defined(name, schema string) *mcp.Tool {
	return &mcp.Tool{Name: name, Description: "Does.", InputSchema: json.RawMessage(schema), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}}
}

func TestServedTools(t *testing.T) {
	t.Parallel()
	s, err := mcptool.NewServer(mcptool.ServerConfig{Name: "files", Classes: map[string]perdure.EffectClass{"read": perdure.Pure}, Definitions: []*mcp.Tool{
		defined("read", `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
		defined("far", `{"type":"object","properties":{"x":{"$ref":"https://example.com/schema"}}}`),
		defined("near.by", `{"type":"object","$defs":{"x":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/x"}}}`),
		defined("named", `{"$id":"https://example.com/schema","type":"object"}`),
		defined("broken", `{"type":"object","properties":{"x":{"type":"nothing"}}}`),
		defined(strings.Repeat("long", 20), `{"type":"object"}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var all []tool.Tool
	for _, r := range s.Tools() {
		all = append(all, r)
	}
	set := tool.NewRegistry()
	set.RegisterOptional(all...)
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	for name, class := range map[string]perdure.EffectClass{
		"files__read": perdure.Pure, "files__far": perdure.AtMostOnce, "files__near_by": perdure.AtMostOnce,
		"files__named": perdure.AtMostOnce, "files__broken": perdure.AtMostOnce,
	} {
		found, ok := set.Get(name)
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		spec := found.Spec()
		// the model reads the server's own schema
		if own := strings.Contains(string(spec.Parameters), "properties"); spec.Class != class || own != (name != "files__named") || spec.Hints.CapabilityID != "mcp_files" || !set.Optional(name) {
			t.Errorf("%s: %s, %s, %s", name, spec.Class, spec.Parameters, spec.Hints.CapabilityID)
		}
	}
	for _, cfg := range []mcptool.ServerConfig{
		{Name: ""}, {Name: "a b"}, {Name: "a__b"}, {Name: strings.Repeat("a", 41)}, {Name: "a", Agents: []string{"["}},
	} {
		if _, err := mcptool.NewServer(cfg); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

// TestSettingsOfMissingTools: settings that name a tool which the server no longer has are ignored,
// and the log names them.
func TestSettingsOfMissingTools(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s, err := mcptool.NewServer(mcptool.ServerConfig{
		Name: "files", Definitions: []*mcp.Tool{defined("read", `{"type":"object"}`), defined("write", `{"type":"object"}`)},
		Only: []string{"read", "gone_tool"}, Agents: []string{"ask_*"}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Classes: map[string]perdure.EffectClass{"read": perdure.Pure, "gone_class": perdure.Pure},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tools()) != 1 || s.Tools()[0].Spec().Name != "files__read" || s.Tools()[0].Spec().Class != perdure.Pure {
		t.Errorf("got %+v", s.Tools())
	}
	for _, name := range []string{"gone_tool", "gone_class", "ask_*", "server=files"} {
		if !strings.Contains(log.String(), name) {
			t.Errorf("the log does not name %s: %s", name, &log)
		}
	}
	if strings.Contains(log.String(), "tool=read") || strings.Contains(log.String(), "tool=write") {
		t.Errorf("logged %s", &log)
	}
}

// TestServedConnections: a session has a connection of its own, unless the operator shares one
// among all.
func TestServedConnections(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	for _, shared := range []bool{false, true} {
		opened := map[perdure.SessionID]int{}
		s, err := mcptool.NewServer(mcptool.ServerConfig{
			Name: "far", Shared: shared, Definitions: []*mcp.Tool{defined("charge", `{"type":"object"}`)},
			Open: func(ctx context.Context, session perdure.SessionID) (*mcptool.Client, error) {
				opened[session]++
				if opened[session] == 1 && session == "b" {
					return nil, perdure.Unavailable // tried again by the next call
				}
				return mcptool.Open(ctx, mcptool.Config{URL: f.web.URL + "/mcp", HTTP: f.web.Client()})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		run := func(session perdure.SessionID, key string) tool.Result {
			call := tool.Call{Session: session, Tool: "far__charge", Args: json.RawMessage(`{"text":"a"}`), Key: key, Execution: 1}
			return s.Tools()[0].Run(t.Context(), call, tool.Env{Call: call})
		}
		if r := run("a", "1"); !r.IsSuccess() {
			t.Errorf("got %+v", r)
		}
		if r := run("b", "2"); r.IsSuccess() == !shared {
			t.Errorf("got %+v", r)
		}
		for _, session := range []perdure.SessionID{"a", "b"} {
			if r := run(session, "3"+string(session)); !r.IsSuccess() {
				t.Errorf("got %+v", r)
			}
		}
		want := map[perdure.SessionID]int{"a": 1, "b": 2}
		if shared {
			want = map[perdure.SessionID]int{"": 1}
		}
		for session, n := range want {
			if opened[session] != n || len(opened) != len(want) {
				t.Errorf("shared %v: opened %v, want %v", shared, opened, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if r := run("a", "4"); r.IsSuccess() {
			t.Error("a closed server answers")
		}
	}
}
