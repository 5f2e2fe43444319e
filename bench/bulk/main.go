// Bulk measures how long it takes to cancel many tasks with one request.
//
//	go run ./bench/bulk [-tasks N] [-dir DIR]
//
// It may import anything. The one thing to know: it uses the handler of the API, with an engine
// over SQLite, and exits with 1 when a task was left out. The times are only printed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bulk:", err)
		os.Exit(1)
	}
}

// running is the number of running tasks; the others wait for a slot.
const running = 64

// look is how often the progress of the bulk is polled.
const look = 20 * time.Millisecond

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	flags := flag.NewFlagSet("bulk", flag.ContinueOnError)
	flags.SetOutput(progress)
	tasks := flags.Int("tasks", 10_000, "number of tasks")
	parent := flags.String("dir", "", "measure the disk of this folder; empty: the one of temporary files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *tasks < 1 {
		return errors.New("-tasks must be at least 1, and there are no arguments")
	}
	dir, err := os.MkdirTemp(*parent, "bulk")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	eng, err := open(ctx, st)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // capacity 1: one result
	go func() { ended <- eng.Run(work) }()
	defer func() { stop(); err = errors.Join(err, <-ended) }()
	handler, err := api.New(api.Config{Engine: eng, Local: true})
	if err != nil {
		return err
	}
	c := &client{handler: handler}
	if err := c.spawn(ctx, *tasks); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(progress, "bulk: the tasks are ready") // an error means that progress cannot be shown
	return c.measure(ctx, *tasks, out)
}

// open creates an engine with a tool that runs until it is canceled.
func open(ctx context.Context, st *sqlite.Store) (*local.Engine, error) {
	m, err := scripted.Parse("bulk", []byte("steps: [{text: hello, repeat: true}]"))
	if err != nil {
		return nil, err
	}
	wait := tool.NewBackground(tool.Spec{Name: "wait", Description: "Waits.", Class: perdure.Idempotent},
		func(ctx context.Context, _ struct{}, _ tool.Env) (struct{}, error) {
			<-ctx.Done()
			return struct{}{}, context.Cause(ctx)
		})
	return local.Open(ctx, local.Config{
		Store: st, Model: m, Tools: tool.NewRegistry(wait),
		Limits: local.Limits{SlotsPerSession: -1, SlotsPerProcess: running, DetachedPerSession: -1, QueueLength: 1 << 30},
	})
}

// client calls the API.
type client struct{ handler http.Handler }

// call sends a request and decodes the response into the value that into points to.
func (c *client) call(ctx context.Context, method, path, body string, into any) error {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if w.Code >= 300 {
		return fmt.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return perdure.DecodeKnownJSON(w.Body.Bytes(), into)
}

// spawn starts the tasks, a hundred per session.
func (c *client) spawn(ctx context.Context, tasks int) error {
	const of = 100
	for n := 0; n < tasks; {
		var s engine.Session
		if err := c.call(ctx, http.MethodPost, "/v1/sessions", `{"agent":{}}`, &s); err != nil {
			return err
		}
		errs := make(chan error, of)
		batch := min(of, tasks-n)
		for range batch {
			go func() {
				var started engine.HostCall
				errs <- c.call(ctx, http.MethodPost, "/v1/sessions/"+string(s.ID)+"/calls", `{"tool":"wait","args":{}}`,
					&started)
			}()
		}
		for range batch {
			if err := <-errs; err != nil {
				return err
			}
		}
		n += batch
	}
	return nil
}

// measure cancels them all and waits until the bulk is done, then until each has ended.
func (c *client) measure(ctx context.Context, tasks int, out io.Writer) error {
	began := time.Now()
	var bulk engine.Bulk
	if err := c.call(ctx, http.MethodPost, "/v1/tasks:cancel", `{"filter":{"tool":"wait"},"reason":"measured"}`,
		&bulk); err != nil {
		return err
	}
	answered := time.Since(began)
	tick := time.NewTicker(look)
	defer tick.Stop()
	for bulk.State == engine.BulkRunning {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := c.call(ctx, http.MethodGet, "/v1/bulks/"+string(bulk.ID), "", &bulk); err != nil {
			return err
		}
	}
	took := time.Since(began)
	if bulk.Matched != tasks || bulk.Done != tasks || bulk.Failed != 0 {
		return fmt.Errorf("of %d tasks %d matched, %d were canceled, %d failed: %s", tasks, bulk.Matched, bulk.Done,
			bulk.Failed, bulk.Error)
	}
	_, err := fmt.Fprintf(out, "bulk: %d tasks, %d at a time: response after %s, all canceled after %s, %.0f/s\n",
		tasks, running, answered.Round(time.Millisecond), took.Round(time.Millisecond), float64(tasks)/took.Seconds())
	return err
}
