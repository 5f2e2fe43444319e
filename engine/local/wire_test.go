package local_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/openai"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// wireScript is a conversation whose every step has text before its calls. Its answers depend only
// on the transcript, so a repeated request gets the same answer.
const wireScript = `
rules:
  - when: {not_called: note}
    text: I write two things down. Görlitz first.
    chunk: 9
    calls:
      - {name: note, args: {text: Görlitz an der Neiße}}
      - {name: note, args: {text: 'a second, longer thing: 你好 🙂'}}
  - when: {not_called: pay}
    chunk: 9
    calls:
      - {name: pay, args: {text: the bill}}
steps:
  - {text: All of it is done., chunk: 5, repeat: true}
`

// cutAt is where the connection of one request breaks. The zero value: nowhere.
type cutAt struct {
	request, events int
	half            bool
}

// cut is the function that a server calls for it.
func (c cutAt) cut(request int) (events int, half, cut bool) {
	return c.events, c.half, request == c.request
}

// dialect is a provider's protocol, with both of its ends.
type dialect struct {
	name   string
	server func(m model.Model, at cutAt, twice bool) (http.Handler, func() []int)
	client func(url string, c *http.Client) (model.Model, error)
}

func dialects() []dialect {
	return []dialect{
		{
			name: "openai",
			server: func(m model.Model, at cutAt, twice bool) (http.Handler, func() []int) {
				s := openaitest.New(m, openaitest.Config{Key: "secret", Cut: at.cut, Duplicate: twice})
				return s, s.Events
			},
			client: func(url string, c *http.Client) (model.Model, error) {
				return openai.New(openai.Config{Name: "m", Key: "secret", BaseURL: url, HTTP: c})
			},
		},
		{
			name: "anthropic",
			server: func(m model.Model, at cutAt, twice bool) (http.Handler, func() []int) {
				s := anthropictest.New(m, anthropictest.Config{Key: "secret", Cut: at.cut, Duplicate: twice})
				return s, s.Events
			},
			client: func(url string, c *http.Client) (model.Model, error) {
				return anthropic.New(anthropic.Config{Name: "m", Key: "secret", BaseURL: url, HTTP: c})
			},
		},
	}
}

// played is the outcome of a conversation over a wire.
type played struct {
	session *perdure.Session
	events  []int    // sent, by request
	ran     []string // the arguments of the executed calls
}

// play runs the conversation with a provider whose connection breaks where cut says. Waits take no
// time.
func (d dialect) play(t *testing.T, at cutAt, twice bool) played {
	t.Helper()
	var out played
	synctest.Test(t, func(t *testing.T) {
		script, err := scripted.Parse("wire", []byte(wireScript))
		if err != nil {
			t.Fatal(err)
		}
		handler, events := d.server(script, at, twice)
		line := newPipes()
		server := &http.Server{Handler: handler}
		served := make(chan struct{})
		go func() { _ = server.Serve(line); close(served) }() // it ends with ErrServerClosed
		transport := &http.Transport{DialContext: line.dial}
		m, err := d.client("http://model.test", &http.Client{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		tools := tool.NewRegistry(noting("note", perdure.Pure, &mu, &out.ran), noting("pay", perdure.AtMostOnce, &mu, &out.ran))
		out.session = converse(t, local.Config{Store: memory.New(memory.Config{}), Model: m, Tools: tools}, perdure.Agent{}, "do it")
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
		out.events = events()
	})
	return out
}

// noting is a tool that records its arguments.
func noting(name string, class perdure.EffectClass, mu *sync.Mutex, ran *[]string) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "Takes a note.", Class: class, Concurrency: "notes"},
		func(_ context.Context, in struct {
			Text string `json:"text"`
		}, env tool.Env) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			*ran = append(*ran, env.Call.Tool+" "+in.Text)
			return "noted", nil
		})
}

// TestR19CutAtEveryEvent breaks the stream of every model call of a conversation after every event,
// and in the middle of every event. The text that was seen is kept, marked; everything is done
// once, with complete arguments.
func TestR19CutAtEveryEvent(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			reference := d.play(t, cutAt{}, false)
			if len(reference.events) != 3 || len(reference.ran) != 3 || reference.session.Turn != nil {
				t.Fatalf("the reference has %v events and ran %q", reference.events, reference.ran)
			}
			cuts, marked := 0, 0
			for request, events := range reference.events {
				for k := range events {
					for _, half := range []bool{false, true} {
						at := cutAt{request: request + 1, events: k, half: half}
						got := d.play(t, at, false)
						cuts++
						if sameAs(t, at, got, reference) {
							marked++
						}
					}
				}
			}
			t.Logf("%d cuts: %d transcripts are the reference, %d have an answer that is marked as interrupted", cuts, cuts-marked, marked)
			if marked == 0 || marked == cuts {
				t.Errorf("%d of %d are marked, want some of both", marked, cuts)
			}
		})
	}
}

// sameAs compares a conversation with the reference, and reports whether it contains an interrupted
// answer.
func sameAs(t *testing.T, at cutAt, got, reference played) (marked bool) {
	t.Helper()
	if diff := cmp.Diff(got.ran, reference.ran); diff != "" {
		t.Errorf("%+v: tools ran (-got +reference):\n%s", at, diff)
	}
	transcript := make([]perdure.Message, 0, len(got.session.Transcript))
	for i, m := range got.session.Transcript {
		switch {
		case m.Interrupted:
			marked = true
			whole := reference.session.Transcript
			if len(m.Calls()) > 0 || i >= len(whole) || !strings.HasPrefix(whole[i].Text(), m.Text()) {
				t.Errorf("%+v: the answer that broke off is %+v", at, m)
			}
		case m.Role == perdure.RoleNotification && marked:
		default:
			transcript = append(transcript, m)
		}
	}
	diff := cmp.Diff(transcript, reference.session.Transcript, cmpopts.IgnoreFields(perdure.Message{}, "ID", "At"), cmpopts.IgnoreTypes(perdure.CallID("")),
		cmpopts.IgnoreFields(perdure.ToolCall{}, "ProviderCallID"))
	if diff != "" {
		t.Errorf("%+v: transcript (-got +reference):\n%s", at, diff)
	}
	return marked
}

// TestR19Duplicates sends the events that open and close a call twice: nothing is done twice.
func TestR19Duplicates(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			reference := d.play(t, cutAt{}, false)
			if sameAs(t, cutAt{}, d.play(t, cutAt{}, true), reference) {
				t.Error("an answer was taken for one that broke off")
			}
		})
	}
}

// pipes is a listener whose connections are pipes in memory, so that they work with a fake clock.
type pipes struct {
	conns  chan net.Conn // capacity 0: a dial waits for Accept
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
