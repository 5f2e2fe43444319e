package main

import (
	"context"
	"errors"
	"fmt"
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
	sessionCount = 10                     // working sessions with followers
	turnEvery    = 500 * time.Millisecond // of each session
	sipEvery     = time.Second            // a slow client reads a byte
	callBytes    = 4 << 10                // size of the input and output of a call
	// of the session whose journal exceeds the buffers of a client and its connection
	oldMessages = 6
	oldBytes    = 1 << 20         // size of each of them
	catchUpTime = time.Minute     // time limit of the clients to receive all events
	settleTime  = 3 * time.Second // pause before the last memory sample
)

// script is the model: a call, and an answer after its result.
const script = `
rules:
  - when: {last_role: user}
    calls: [{name: echo, args: {message: %q}}]
steps: [{text: ok, repeat: true}]
`

// load is a server with its sessions.
type load struct {
	options
	*server
	eng      *remote.Engine
	agent    perdure.Agent
	long     perdure.SessionID   // idle, with a long journal: followed by clients that never read
	sessions []perdure.SessionID // working sessions
	start    []int64             // their last sequence numbers before they are followed
}

// measureClients runs the load. faults are errors of the reading clients.
func measureClients(ctx context.Context, o options, at environment) (found result, faults []error, err error) {
	l, s := &load{options: o, server: at.server}, at.server
	if err := l.prepare(ctx, filepath.Join(at.dir, "load.yaml")); err != nil {
		return nil, nil, err
	}
	f := &figures{Version: 1, Clients: o.clients, Stalled: o.stalled, Slow: o.slow, Sessions: len(l.sessions),
		ServerBefore: s.residentBytes()}
	fmt.Fprintf(at.progress, "load: the sessions of %s work for %s without a client\n", s.url, o.length)
	if err := l.workAlone(ctx, f); err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(at.progress, "load: %d clients for %s\n", o.clients, o.length)
	if faults, err = l.followed(ctx, f); err != nil {
		return nil, nil, err
	}
	f.LiveDuring = s.log.live()
	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	f.ServerDuring, f.ServerAfter = s.maxResident.Load(), s.residentBytes()
	turn, err := l.recorded(ctx)
	if err == nil && o.reference > 0 {
		fmt.Fprintf(at.progress, "load: as many reading clients on a bare net/http server for %s\n", o.reference)
		err = bare(ctx, bareRun{options: o, dir: at.dir, turn: turn, progress: at.progress}, f)
	}
	return f, faults, err
}

// prepare creates the session with the long journal, and those that work without clients.
func (l *load) prepare(ctx context.Context, model string) error {
	if err := os.WriteFile(model, fmt.Appendf(nil, script, strings.Repeat("load ", callBytes/5)), 0o600); err != nil {
		return fmt.Errorf("write the script: %w", err)
	}
	eng, err := remote.New(remote.Config{URL: l.url, Token: l.token})
	if err != nil {
		return err
	}
	l.eng, l.agent = eng, perdure.Agent{Name: "load", Model: "scripted:" + model, Tools: []string{"echo"}}
	long, err := eng.Sessions().Create(ctx, l.agent)
	l.long = long.ID
	for range oldMessages {
		if err == nil {
			err = l.turn(ctx, l.long, strings.Repeat("old ", oldBytes/4))
		}
	}
	if err != nil {
		return err
	}
	return l.begin(ctx)
}

// begin creates the working sessions. New sessions are used with clients, so that the cost of
// growing conversations is the same with and without clients.
func (l *load) begin(ctx context.Context) error {
	l.sessions = nil
	for range sessionCount {
		made, err := l.eng.Sessions().Create(ctx, l.agent)
		if err != nil {
			return err
		}
		l.sessions = append(l.sessions, made.ID)
	}
	var err error
	l.start, err = l.last(ctx)
	return err
}

// workAlone lets the sessions work without clients, and measures the memory of the server.
func (l *load) workAlone(ctx context.Context, f *figures) error {
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { l.watch(watching) })
	l.log.live()
	err := l.work(ctx, l.length)
	stop()
	group.Wait()
	f.ServerAlone, f.LiveAlone = l.maxResident.Swap(0), l.log.live()
	if err != nil {
		return err
	}
	return l.begin(ctx)
}

// turn sends a message and waits for the answer.
func (l *load) turn(ctx context.Context, id perdure.SessionID, text string) error {
	if _, err := l.eng.Send(ctx, id, perdure.Text(text)); err != nil {
		return err
	}
	return l.eng.Sessions().WaitIdle(ctx, id)
}

// last returns the last sequence number of each session.
func (l *load) last(ctx context.Context) ([]int64, error) {
	var all []int64
	for _, id := range l.sessions {
		s, err := l.eng.Sessions().Get(ctx, id)
		if err != nil {
			return nil, err
		}
		all = append(all, s.LastSeq)
	}
	return all, nil
}

// followed lets the sessions work with clients, and records their results.
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
	readers, faults := make([]*reader, l.clients-l.stalled-l.slow), make([]error, l.clients)
	cuts := make([]time.Duration, l.stalled+l.slow) // first the clients that never read
	stay := time.Duration(0)
	if l.reconnects > 0 {
		stay = l.length * time.Duration(len(readers)) / time.Duration(l.reconnects)
	}
	connected.Add(l.clients)
	for i := range l.clients {
		arrived := sync.OnceFunc(connected.Done)
		if i < len(readers) {
			readers[i] = &reader{session: l.sessions[i%len(l.sessions)], reconnectAfter: stay}
			readers[i].seen.Store(l.start[i%len(l.sessions)])
		}
		group.Go(func() {
			defer arrived()
			if i < len(readers) {
				faults[i] = readers[i].follow(following, l.server, web, arrived)
				readers[i].ended.Store(true)
			} else {
				nth, one := i-len(readers), stalledClient{session: l.long, connected: arrived}
				if nth >= l.stalled {
					one.readInterval = sipEvery
				}
				cuts[nth], faults[i] = stall(following, l.server, web, one)
			}
		})
	}
	connected.Wait()

	began := time.Now()
	err = l.work(ctx, l.length)
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
	f.StalledCut, f.CutAfterP50, f.CutAfterMax = cut(cuts[:l.stalled])
	f.SlowCut, _, f.SlowCutMax = cut(cuts[l.stalled:])
	f.violations(faults, readers, last)
	return complaints(faults, behind), err
}

// complaints returns the errors of the clients; wrong events come before missing ones.
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

// work lets every session run turns for a time.
func (l *load) work(ctx context.Context, length time.Duration) error {
	over := time.Now().Add(length)
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

// caughtUp waits until the readers have the last event of their session, and returns those that do
// not in time.
func (l *load) caughtUp(ctx context.Context, readers []*reader, last []int64) []error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
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

// lags records the age of events at their receipt.
func (f *figures) lags(readers []*reader) {
	var all []time.Duration
	for _, r := range readers {
		all = append(all, r.lags...)
	}
	f.Received = len(all)
	f.LagP50, f.LagP99 = micros(all, 0.5), micros(all, 0.99)
}

// violations counts the events that reading clients missed, and those that they got twice.
func (f *figures) violations(faults []error, readers []*reader, last []int64) {
	for i, r := range readers {
		f.Reconnects += r.reconnects
		var wrong *orderError
		if errors.As(faults[i], &wrong) && wrong.seq <= wrong.last {
			f.Twice++
		}
		f.Lost += max(0, last[i%len(last)]-r.seen.Load())
	}
}

// cut counts how many clients were cut, and how long after their request; 0: not cut.
func cut(after []time.Duration) (n int, p50, most float64) {
	after = slices.DeleteFunc(slices.Clone(after), func(d time.Duration) bool { return d == 0 })
	return len(after), micros(after, 0.5), micros(after, 1)
}

// micros returns a percentile of a sample by nearest rank, in microseconds. An empty sample yields
// 0.
func micros(sample []time.Duration, p float64) float64 {
	if len(sample) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(sample))
	rank := int(p*float64(len(sorted))+0.999999) - 1
	return float64(sorted[min(max(rank, 0), len(sorted)-1)]) / float64(time.Microsecond)
}
