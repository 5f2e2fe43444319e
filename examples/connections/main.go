// Connections is a program whose users authorize accounts at another service, by OAuth 2.0. Its
// tool needs the account of the session's user. If that user has not authorized yet, the turn
// waits, the program prints an address to open in a browser, and the turn continues by itself
// afterwards. A later start needs no authorization: the token is stored, sealed.
//
//	go run ./examples/connections
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// service is the name of the tracker in the configuration and in the tool.
const service = "tracker"

type countOut struct {
	Issues int `json:"issues"`
}

// countIssues returns the tool that asks the tracker in the name of the session's user.
func countIssues(t *tracker) tool.Tool {
	spec := tool.Spec{Name: "count_issues", Description: "Counts the open issues of the user.", Class: perdure.Pure, NeedsEnv: true}
	return tool.New(spec, func(ctx context.Context, _ struct{}, env tool.Env) (out countOut, err error) {
		if env.Connections == nil {
			return out, tool.Errorf("%s", tool.Missing("Connection resolver", "count_issues requires an account.").Text)
		}
		token, err := env.Connections.Token(ctx, service)
		if errors.Is(err, perdure.NotFound) { // not authorized yet, or expired
			return out, &tool.NotConnected{Provider: service}
		}
		if err == nil {
			out.Issues, err = t.issues(token)
		}
		return out, err
	})
}

const script = `
rules:
  - when: {last_role: tool_result, last_contains: Repeat the call}
    calls: [{name: count_issues, args: {}}]
  - when: {last_role: tool_result}
    text: 'You have {{(result "count_issues").issues}} open issues.'
steps:
  - calls: [{name: count_issues, args: {}}]
    repeat: true
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := "data"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	open := func(address string) { fmt.Printf("Open this address in a browser: %s\n", address) }
	if err := run(ctx, dir, open, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run asks for the issues of a user. It calls open with the address at which the user authorizes.
func run(ctx context.Context, dir string, open func(address string), out io.Writer) (err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // unless the server did
	base := "http://" + listener.Addr().String()
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	data, err := local.OpenDataDir(ctx, local.DataDirConfig{Dir: dir, Store: st}) // has the keyring
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	model, err := scripted.Parse("connections", []byte(script))
	if err != nil {
		return err
	}
	theirs := newTracker()
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: model, Tools: tool.NewRegistry(countIssues(theirs)), Storage: data.Storage,
		Catalogue: local.Catalogue{Providers: local.Providers{OAuth: func() (local.OAuthProviders, error) {
			return local.OAuthProviders{All: map[string]local.OAuthProvider{service: {
				AuthorizeURL: base + "/authorize", TokenURL: base + "/token", ClientID: "example", Scopes: []string{"issues"},
			}}}, nil
		}}},
	})
	if err != nil {
		return err
	}
	// A session belongs to a user, and so does the account.
	ctx, stop := context.WithCancel(engine.WithOwner(ctx, engine.Owner{Org: "acme", User: "ada"}))
	p := &program{eng: eng, base: base, open: open, out: out}
	server := &http.Server{Handler: p.routes(ctx, theirs), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 2) // capacity 2: one result of the engine, one of the server
	go func() { ended <- eng.Run(ctx) }()
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		stop()
		err = errors.Join(err, server.Close())
		for range cap(ended) {
			if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
				err = errors.Join(err, e)
			}
		}
	}()
	return p.ask(ctx)
}

// program is what the handler and the conversation share.
type program struct {
	eng  *local.Engine
	base string // the address of this program
	open func(address string)
	out  io.Writer
}

// routes has the address to which the service sends the browser back and, because it is part of
// this program, the service.
func (p *program) routes(ctx context.Context, theirs *tracker) http.Handler {
	routes := http.NewServeMux()
	theirs.serve(routes)
	routes.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		answer := r.URL.Query()
		_, err := p.eng.Connections().Finish(ctx, engine.ConnectionAnswer{
			State: answer.Get("state"), Code: answer.Get("code"), Error: answer.Get("error"),
		})
		if err != nil {
			http.Error(w, "The account was not connected. Ask again.", http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, "The account is connected. You can close this page.")
	})
	return routes
}

// errAnswered ends the following of a session.
var errAnswered = errors.New("answered")

// ask asks the agent, and lets the user authorize when a call waits for it.
func (p *program) ask(ctx context.Context) error {
	s, err := p.eng.Sessions().Create(ctx, perdure.Agent{ClientConnections: true}) // calls wait for connections
	if err != nil {
		return err
	}
	if _, err := p.eng.Send(ctx, s.ID, perdure.Text("How many issues are open?")); err != nil {
		return err
	}
	err = p.eng.Follow(ctx, s.ID, 0, func(f engine.Frame) error {
		if f.Event == nil {
			return nil // a live update
		}
		switch fact := f.Event.Fact.(type) {
		case perdure.ToolCallRequested:
			flow, err := p.eng.Connections().Begin(ctx, engine.ConnectionRequest{Provider: fact.Connection, RedirectURL: p.base + "/callback"})
			if err != nil {
				return err
			}
			fmt.Fprintf(p.out, "ada connects the %s\n", fact.Connection)
			p.open(flow.URL)
		case perdure.TurnFailed:
			return fmt.Errorf("the turn failed: %s", fact.Code)
		case perdure.TurnCompleted:
			fmt.Fprintln(p.out, fact.FinalPreview)
			return errAnswered
		}
		return nil
	})
	if errors.Is(err, errAnswered) {
		return nil
	}
	return err
}
