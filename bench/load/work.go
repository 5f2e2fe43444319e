package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/egress"
)

const (
	sessionCount = 10                     // that are followed
	turnEvery    = 500 * time.Millisecond // of each session
	callBytes    = 4 << 10                // what a call is given, and answers
	oldMessages  = 6                      // of the session whose journal is more than a client and its line hold
	oldBytes     = 1 << 20                // of each of them
	catchUp      = time.Minute            // how long the clients may take to get what is there
	afterwards   = 3 * time.Second        // before the memory of the server is looked at for the last time
)

// script is the model: a call, and a word when it is answered.
const script = `
rules:
  - when: {last_role: user}
    calls: [{name: echo, args: {message: %q}}]
steps: [{text: ok, repeat: true}]
`

// load is a server with its sessions. The first one has a long journal: those that never read follow it.
type load struct {
	options
	*server
	eng      *remote.Engine
	sessions []perdure.SessionID
	start    []int64 // the last seq of each, before anybody follows
}

// measure runs the load. faults are what the clients that read have to complain of.
func measure(ctx context.Context, o options, progress io.Writer) (f figures, faults []error, err error) {
	dir, err := os.MkdirTemp("", "perdure-load-")
	if err != nil {
		return f, nil, fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := startServer(ctx, dir, progress)
	if err != nil {
		return f, nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	l := &load{options: o, server: s}
	if err := l.prepare(ctx, filepath.Join(dir, "load.yaml")); err != nil {
		return f, nil, err
	}
	fmt.Fprintf(progress, "load: %d clients on %s for %s\n", o.clients, s.url, o.length)
	f = figures{Version: 1, Clients: o.clients, Stalled: o.stalled, Sessions: len(l.sessions), ServerBefore: s.residentBytes()}
	faults, err = l.followed(ctx, &f)
	if err != nil {
		return f, nil, err
	}
	select {
	case <-time.After(afterwards):
	case <-ctx.Done():
		return f, nil, context.Cause(ctx)
	}
	f.ServerDuring, f.ServerAfter = s.most.Load(), s.residentBytes()
	return f, faults, nil
}

// prepare makes the sessions.
func (l *load) prepare(ctx context.Context, model string) error {
	if err := os.WriteFile(model, fmt.Appendf(nil, script, strings.Repeat("load ", callBytes/5)), 0o600); err != nil {
		return fmt.Errorf("write the script: %w", err)
	}
	eng, err := remote.New(remote.Config{URL: l.url, Token: l.token})
	if err != nil {
		return err
	}
	l.eng = eng
	for range sessionCount {
		made, err := eng.NewSession(ctx, perdure.Agent{Name: "load", Model: "scripted:" + model, Tools: []string{"echo"}})
		if err != nil {
			return err
		}
		l.sessions = append(l.sessions, made.ID)
	}
	for range oldMessages {
		if err := l.turn(ctx, l.sessions[0], strings.Repeat("old ", oldBytes/4)); err != nil {
			return err
		}
	}
	l.start, err = l.last(ctx)
	return err
}

// turn says something and waits until it is answered.
func (l *load) turn(ctx context.Context, id perdure.SessionID, text string) error {
	if err := l.eng.Send(ctx, id, perdure.Text(text)); err != nil {
		return err
	}
	return l.eng.WaitIdle(ctx, id)
}

// last returns the last seq of each session.
func (l *load) last(ctx context.Context) ([]int64, error) {
	var all []int64
	for _, id := range l.sessions {
		s, err := l.eng.Session(ctx, id)
		if err != nil {
			return nil, err
		}
		all = append(all, s.LastSeq)
	}
	return all, nil
}

// followed lets the sessions work while the clients are there, and writes what these found.
func (l *load) followed(ctx context.Context, f *figures) ([]error, error) {
	following, stop := context.WithCancel(ctx)
	defer stop()
	var group, connected sync.WaitGroup
	group.Go(func() { l.watch(following) })

	web, err := egress.ForURL(l.url)
	if err != nil {
		return nil, err
	}
	defer web.CloseIdleConnections()
	readers, faults := make([]*reader, l.clients-l.stalled), make([]error, l.clients)
	cuts := make([]time.Duration, l.stalled)
	connected.Add(l.clients)
	for i := range l.clients {
		arrived := sync.OnceFunc(connected.Done)
		if i < len(readers) {
			readers[i] = &reader{session: l.sessions[i%len(l.sessions)]}
			readers[i].seen.Store(l.start[i%len(l.sessions)])
		}
		group.Go(func() {
			defer arrived()
			if i < len(readers) {
				faults[i] = readers[i].follow(following, l.server, web, arrived)
				readers[i].ended.Store(true)
			} else {
				cuts[i-len(readers)], faults[i] = stall(following, l.server, web, l.sessions[0], arrived)
			}
		})
	}
	connected.Wait()

	began := time.Now()
	err = l.work(ctx)
	f.Seconds = time.Since(began).Seconds()
	last := l.start
	if err == nil {
		last, err = l.last(ctx)
	}
	behind := l.caughtUp(ctx, readers, last)
	stop()
	group.Wait()
	for i := range last {
		f.Events += last[i] - l.start[i]
	}
	f.lags(readers)
	f.cuts(cuts)
	return complaints(faults, behind), err
}

// complaints says what went wrong with each client; what it was sent comes before what it was not.
func complaints(faults, behind []error) []error {
	var all []error
	for i, fault := range faults {
		if fault == nil && i < len(behind) {
			fault = behind[i]
		}
		if fault != nil {
			all = append(all, fmt.Errorf("client %d: %w", i, fault))
		}
	}
	return all
}

// work lets every session have turns until the time is over.
func (l *load) work(ctx context.Context) error {
	over := time.Now().Add(l.length)
	var group sync.WaitGroup
	errs := make([]error, len(l.sessions))
	for i, id := range l.sessions {
		group.Go(func() {
			tick := time.NewTicker(turnEvery)
			defer tick.Stop()
			for time.Now().Before(over) && errs[i] == nil {
				errs[i] = l.turn(ctx, id, "go")
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// caughtUp waits until the readers have the last event of their session, and says who has not in time.
func (l *load) caughtUp(ctx context.Context, readers []*reader, last []int64) []error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	behind := make([]error, len(readers))
	for i, r := range readers {
		want := last[i%len(last)]
		for r.seen.Load() < want && !r.ended.Load() && ctx.Err() == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		if seen := r.seen.Load(); seen < want {
			behind[i] = fmt.Errorf("it has %d events of %d", seen, want)
		}
	}
	return behind
}

// lags writes how old events were when they were read.
func (f *figures) lags(readers []*reader) {
	var all []time.Duration
	for _, r := range readers {
		all = append(all, r.lags...)
	}
	f.Received = len(all)
	f.LagP50, f.LagP99 = micros(all, 0.5), micros(all, 0.99)
}

// cuts writes who was cut and when; 0 is one that was not.
func (f *figures) cuts(after []time.Duration) {
	after = slices.DeleteFunc(after, func(d time.Duration) bool { return d == 0 })
	f.StalledCut = len(after)
	f.CutAfterP50, f.CutAfterMax = micros(after, 0.5), micros(after, 1)
}

// micros is the percentile of a sample, by the nearest rank, in microseconds. The empty sample has 0.
func micros(sample []time.Duration, p float64) float64 {
	if len(sample) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(sample))
	rank := int(p*float64(len(sorted))+0.999999) - 1
	return float64(sorted[min(max(rank, 0), len(sorted)-1)]) / float64(time.Microsecond)
}
