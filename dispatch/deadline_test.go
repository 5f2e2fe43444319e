package dispatch_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// slowly is a tool that works for three hours, and takes as long as its call says.
type slowly struct{ tool.Tool }

// Deadline implements tool.Timed.
func (slowly) Deadline(args json.RawMessage) time.Duration {
	if string(args) == `{"most":"4h"}` {
		return 4 * time.Hour
	}
	return 0
}

// TestCallNamesItsDeadline: the time that a call names is its deadline, in both dispatchers;
// without one it is that of the spec.
func TestCallNamesItsDeadline(t *testing.T) {
	t.Parallel()
	type in struct {
		Most string `json:"most,omitempty"`
	}
	tools := tool.NewRegistry(slowly{tool.New(tool.Spec{Name: "slowly", Description: "Works.", Class: perdure.Pure, SoftBudget: tool.Never},
		func(ctx context.Context, _ in, _ tool.Env) (string, error) {
			select {
			case <-time.After(3 * time.Hour):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})})
	makers := map[string]func(dispatch.LoopConfig) (dispatch.Dispatcher, error){
		"inline": func(c dispatch.LoopConfig) (dispatch.Dispatcher, error) { return dispatch.NewInline(c) },
		"async": func(c dispatch.LoopConfig) (dispatch.Dispatcher, error) {
			return dispatch.NewAsync(context.Background(), c)
		},
	}
	for name, of := range makers {
		for args, want := range map[string]time.Duration{`{"most":"4h"}`: 3 * time.Hour, `{}`: 2 * time.Hour} {
			t.Run(name+" "+args, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					d, err := of(dispatch.ForRegistry(tools, nil))
					if err != nil {
						t.Fatal(err)
					}
					if async, ok := d.(*dispatch.Async); ok {
						defer async.Shutdown(context.Background())
					}
					began := time.Now()
					call := tool.Call{Session: "session_1", Turn: "turn_1", ID: "call_1", Tool: "slowly", Args: []byte(args), Execution: 1}

					out, err := d.Start(t.Context(), dispatch.Launch{Call: call})
					if err == nil && out.Ready == nil {
						d.WaitTurn(t.Context(), "turn_1")
					}

					if took := time.Since(began); err != nil || took != want {
						t.Errorf("ended after %s, %v, want %s", took, err, want)
					}
				})
			})
		}
	}
}
