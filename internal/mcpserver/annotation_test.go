package mcpserver_test

import (
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/file"
)

// TestAnnotations: a client of either era reads what the calls of a tool do, from its hints and its
// class.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	silent := tool.New(tool.Spec{Name: "pay", DisplayName: "Pay", Description: "Pays.", Class: perdure.AtMostOnce},
		func(context.Context, struct{}, tool.Env) (string, error) { return "", nil })
	want := map[string]mcp.ToolAnnotations{
		"write_todos":      {Title: "Write Todos", IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
		"report_progress":  {Title: "Report Progress", IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
		"get_current_time": {Title: "Get Current Time", ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
		"edit_file":        {Title: "Edit File", DestructiveHint: &yes, OpenWorldHint: &no},
		"pay":              {Title: "Pay", DestructiveHint: &yes, OpenWorldHint: &yes},
	}
	r := newRig(t, mcpserver.Config{Local: &mcpserver.Principal{ID: "local"}},
		core.WriteTodos(), core.ReportProgress(), core.GetCurrentTime(), file.EditFile(), silent)
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			theirIn, ourOut := io.Pipe()
			ourIn, theirOut := io.Pipe()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			served := make(chan error, 1) // of one client
			go func() { served <- r.server.ServeStdio(ctx, ourIn, ourOut) }()
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			session, err := client.Connect(ctx, &mcp.IOTransport{Reader: theirIn, Writer: theirOut}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			listed, err := session.ListTools(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]mcp.ToolAnnotations{}
			for _, shown := range listed.Tools {
				if _, ok := want[shown.Name]; ok && shown.Annotations != nil {
					got[shown.Name] = *shown.Annotations
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}
