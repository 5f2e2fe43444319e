// Command server is what the MCP conformance suite is run against: Perdure's MCP server over a real store, with the fixture
// tools that the suite asks for.
//
// It may import anything. The one thing to know: the tools of tasks run through the engine like any other; what the suite
// wants of the protocol's core beside tools is added to the SDK's server as it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen; the address is printed")
	dir := flag.String("dir", "", "the data directory; empty: a new one, which is removed")
	debug := flag.Bool("debug", false, "log what happens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *dir, *debug); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr, dir string, debug bool) error {
	log := slog.New(slog.DiscardHandler)
	if debug {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if dir == "" {
		made, err := os.MkdirTemp("", "perdure-mcp-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		dir = made
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer st.Close()
	eng, err := local.Open(ctx, local.Config{Store: st, Model: none{}, Tools: tool.NewRegistry(fixtures()...), Log: log})
	if err != nil {
		return err
	}
	server, err := mcpserver.New(ctx, mcpserver.Config{
		Engine: eng, Tools: marked(), Local: &mcpserver.Principal{ID: "conformance"}, Name: "perdure-conformance", Log: log, Extend: core, Complete: complete, SoftBudget: 20 * time.Second,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", server)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1) // of the engine's one Run
	go func() { ended <- eng.Run(work) }()
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	go func() {
		<-ctx.Done()
		_ = web.Close() // who still asks is done with us
	}()
	err = web.Serve(listener)
	end()
	if failed := <-ended; failed != nil {
		return failed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// none is the model of a server that asks none.
type none struct{}

// Stream has no answer.
func (none) Stream(context.Context, model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		yield(model.Delta{}, &model.Error{Code: model.Unavailable, Text: "this server has no model"})
	}
}
