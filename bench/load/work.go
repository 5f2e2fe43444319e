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
	sessionCount = 10                     // that work and are followed
	turnEvery    = 500 * time.Millisecond // of each session
	sipEvery     = time.Second            // one who is slow reads a byte
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

// load is a server with its sessions.
type load struct {
	options
	*server
	eng      *remote.Engine
	agent    perdure.Agent
	long     perdure.SessionID   // at rest, with a long journal: those that never read follow it
	sessions []perdure.SessionID // that work
	start    []int64             // the last seq of each of these, before anybody follows
}

// measureClients runs the load. faults are what the clients that read have to complain of.
func measureClients(ctx context.Context, o options, at site) (found printed, faults []error, err error) {
	l, s := &load{options: o, server: at.server}, at.server
	if err := l.prepare(ctx, filepath.Join(at.dir, "load.yaml")); err != nil {
		return nil, nil, err
	}
	f := &figures{Version: 1, Clients: o.clients, Stalled: o.stalled, Slow: o.slow, Sessions: len(l.sessions), ServerBefore: s.residentBytes()}
	fmt.Fprintf(at.progress, "load: the sessions of %s work for %s without a client\n", s.url, o.length)
	if err := l.alone(ctx, f); err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(at.progress, "load: %d clients for %s\n", o.clients, o.length)
	if faults, err = l.followed(ctx, f); err != nil {
		return nil, nil, err
	}
	f.LiveDuring = s.talk.live()
	select {
	case <-time.After(afterwards):
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	f.ServerDuring, f.ServerAfter = s.most.Load(), s.residentBytes()
	turn, err := l.recorded(ctx)
	if err == nil && o.reference > 0 {
		fmt.Fprintf(at.progress, "load: as many clients that read on a server of net/http and nothing else, for %s\n", o.reference)
		err = bare(ctx, bareRun{options: o, dir: at.dir, turn: turn, progress: at.progress}, f)
	}
	return f, faults, err
}

// prepare makes the session with the long journal, and those that work without a client.
func (l *load) prepare(ctx context.Context, model string) error {
	if err := os.WriteFile(model, fmt.Appendf(nil, script, strings.Repeat("load ", callBytes/5)), 0o600); err != nil {
		return fmt.Errorf("write the script: %w", err)
	}
	eng, err := remote.New(remote.Config{URL: l.url, Token: l.token})
	if err != nil {
		return err
	}
	l.eng, l.agent = eng, perdure.Agent{Name: "load", Model: "scripted:" + model, Tools: []string{"echo"}}
	long, err := eng.NewSession(ctx, l.agent)
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

// begin makes the sessions that work from now on. With clients they are new ones, so that what a conversation takes which gets
// longer and longer is the same with clients and without.
func (l *load) begin(ctx context.Context) error {
	l.sessions = nil
	for range sessionCount {
		made, err := l.eng.NewSession(ctx, l.agent)
		if err != nil {
			return err
		}
		l.sessions = append(l.sessions, made.ID)
	}
	var err error
	l.start, err = l.last(ctx)
	return err
}

// alone lets the sessions work without a client, and looks how much memory the server takes for it.
func (l *load) alone(ctx context.Context, f *figures) error {
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { l.watch(watching) })
	l.talk.live()
	err := l.work(ctx, l.length)
	stop()
	group.Wait()
	f.ServerAlone, f.LiveAlone = l.most.Swap(0), l.talk.live()
	if err != nil {
		return err
	}
	return l.begin(ctx)
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
	readers, faults := make([]*reader, l.clients-l.stalled-l.slow), make([]error, l.clients)
	cuts := make([]time.Duration, l.stalled+l.slow) // first those that never read
	stay := time.Duration(0)
	if l.reconnects > 0 {
		stay = l.length * time.Duration(len(readers)) / time.Duration(l.reconnects)
	}
	connected.Add(l.clients)
	for i := range l.clients {
		arrived := sync.OnceFunc(connected.Done)
		if i < len(readers) {
			readers[i] = &reader{session: l.sessions[i%len(l.sessions)], stay: stay}
			readers[i].seen.Store(l.start[i%len(l.sessions)])
		}
		group.Go(func() {
			defer arrived()
			if i < len(readers) {
				faults[i] = readers[i].follow(following, l.server, web, arrived)
				readers[i].ended.Store(true)
			} else {
				nth, one := i-len(readers), stalling{session: l.long, connected: arrived}
				if nth >= l.stalled {
					one.sip = sipEvery
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
	f.wrongs(faults, readers, last)
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

// work lets every session have turns for a time.
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

// wrongs counts the events that a client that reads did not get, and those that it got twice.
func (f *figures) wrongs(faults []error, readers []*reader, last []int64) {
	for i, r := range readers {
		f.Reconnects += r.again
		var wrong *misplaced
		if errors.As(faults[i], &wrong) && wrong.seq <= wrong.last {
			f.Twice++
		}
		f.Lost += max(0, last[i%len(last)]-r.seen.Load())
	}
}

// cut says how many of some clients were cut, and how long after their request; 0 is one that was not.
func cut(after []time.Duration) (n int, p50, most float64) {
	after = slices.DeleteFunc(slices.Clone(after), func(d time.Duration) bool { return d == 0 })
	return len(after), micros(after, 0.5), micros(after, 1)
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
