package mcpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/mcpserver"
)

// eras are the versions of the two wires.
var eras = []string{"2026-07-28", "2025-11-25"}

// onStdio connects the SDK's own client to a server by a pair of streams.
func onStdio(t *testing.T, server *mcpserver.Server, version string) *mcp.ClientSession {
	t.Helper()
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	served := make(chan error, 1) // of one client
	go func() { served <- server.ServeStdio(ctx, ourIn, ourOut) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: theirIn, Writer: theirOut}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return session
}

// TestStdioClientGoes lets the client go before its answer is written: that is how clients end, and
// no error.
func TestStdioClientGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{Local: &mcpserver.Principal{ID: "local"}})
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	served := make(chan error, 1) // of one client
	go func() { served <- r.server.ServeStdio(t.Context(), ourIn, ourOut) }()
	say := func(line string) {
		if _, err := io.WriteString(theirOut, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if answer, err := bufio.NewReader(theirIn).ReadString('\n'); err != nil || !strings.Contains(answer, `"result"`) {
		t.Fatalf("%s, %v", answer, err)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	_ = theirIn.Close() // it has no errors
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	_ = theirOut.Close()
	if err := <-served; err != nil {
		t.Errorf("got %v", err)
	}
}

// lateNote is an engine that hears that the first reply was written when the second call is being
// looked up: as late as can be.
type lateNote struct {
	engine.Engine
	outpaced bool          // the second call is only found when the first reply has been noted
	calls    atomic.Int64  // begun
	replies  atomic.Int64  // written
	looked   chan struct{} // closed when the second call was looked up
	noted    chan struct{} // closed when the first reply is noted
}

// lateNoteHostCalls implements engine.HostCalls for lateNote.
type lateNoteHostCalls struct {
	engine.HostCalls
	*lateNote
}

// HostCalls implements engine.Engine.
func (l *lateNote) HostCalls() engine.HostCalls { return lateNoteHostCalls{l.Engine.HostCalls(), l} }

func (l lateNoteHostCalls) Start(ctx context.Context, order engine.HostCallRequest) (engine.HostCall, error) {
	made, err := l.Engine.HostCalls().Start(ctx, order)
	if l.calls.Add(1) != 2 {
		return made, err
	}
	close(l.looked)
	if l.outpaced {
		<-l.noted
		<-time.After(20 * time.Millisecond) // until nothing of the first reply is in progress, which cannot be observed
	}
	return made, err
}

func (l lateNoteHostCalls) MarkReported(ctx context.Context, key perdure.CallKey) error {
	first := l.replies.Add(1) == 1
	if first {
		select {
		case <-l.looked:
		case <-ctx.Done():
		}
	}
	err := l.Engine.HostCalls().MarkReported(ctx, key)
	if first {
		close(l.noted)
	}
	return err
}

// TestM04StdioNewCall: a client on stdio that has read a reply and makes the same call again makes
// a new one, however late it is noted that the reply was written.
func TestM04StdioNewCall(t *testing.T) {
	t.Parallel()
	for _, version := range eras {
		for _, outpaced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/outpaced=%t", version, outpaced), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, mcpserver.Config{})
				late := &lateNote{Engine: r.eng, outpaced: outpaced, looked: make(chan struct{}), noted: make(chan struct{})}
				server, err := mcpserver.New(t.Context(), mcpserver.Config{
					Engine: late, Local: &mcpserver.Principal{ID: "local"}, Tools: []mcpserver.Exposed{{Name: "charge"}},
				})
				if err != nil {
					t.Fatal(err)
				}
				client := onStdio(t, server, version)

				for range 2 {
					if got, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "charge", Arguments: text}); err != nil || got.IsError {
						t.Fatalf("got %+v, %v", got, err)
					}
				}

				if n := len(r.Effects("charge")); n != 2 {
					t.Errorf("%d effects of two calls", n)
				}
			})
		}
	}
}

// TestR15StdioNewCalls: so it is many times in a row.
func TestR15StdioNewCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{Local: &mcpserver.Principal{ID: "local"}})
	for i, version := range eras {
		client := onStdio(t, r.server, version)

		for range 40 {
			if got, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "charge", Arguments: text}); err != nil || got.IsError {
				t.Fatalf("%s: got %+v, %v", version, got, err)
			}
		}

		if n := len(r.Effects("charge")); n != 40*(i+1) {
			t.Errorf("%s: %d effects after %d calls", version, n, 40*(i+1))
		}
	}
}

// TestM03StdioCancelled: a request canceled by its client ends a pure call, on both wires; any
// other call continues as a task.
func TestM03StdioCancelled(t *testing.T) {
	t.Parallel()
	for _, version := range eras {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, mcpserver.Config{Local: &mcpserver.Principal{ID: "local"}})
			client := onStdio(t, r.server, version)
			for _, name := range []string{"hold_note", "hold"} {
				ctx, cancel := context.WithCancel(t.Context())
				left := make(chan error, 1) // of one call
				go func() {
					_, err := client.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: text})
					left <- err
				}()
				r.Entered(t, name, 1)
				cancel()
				if err := <-left; err == nil {
					t.Errorf("%s: it was answered", name)
				}
			}

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for _, task := range r.all() {
				if task.Tool == "hold_note" {
					continue
				}
				if ended, err := r.eng.Tasks().Wait(ctx, task.ID); err != nil || ended.State != perdure.TaskCanceled {
					t.Errorf("the pure call is %s, %v, want canceled", ended.State, err)
				}
			}
			for _, task := range r.all() {
				if task.Tool == "hold_note" && (task.State != perdure.TaskRunning || task.CancelRequested()) {
					t.Errorf("the idempotent call is %s, want running", task.State)
				}
			}
		})
	}
}
