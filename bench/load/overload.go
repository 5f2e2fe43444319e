package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/remote"
)

const (
	mostAskers = 7500                   // connections of the generator, of the 8,192 that a server takes
	atPeak     = 32                     // of them that ask for the peak, each when it was answered: enough that the server is never without work
	eager      = 1000                   // of them that ask again at once whatever the answer was
	turns      = 80                     // of the session that is forked
	inTime     = 5 * time.Second        // within which an answer is worth something: as many as ask for the peak have theirs after about a second
	soon       = time.Second            // within which it is told of as well
	warming    = 2 * time.Second        // of the flood, before answers are counted: those that are at work take about a second
	window     = 500 * time.Millisecond // in which recovery is looked for
	besides    = 10                     // cancels a second, and looks at health, whatever becomes of those before
	lightTime  = 2 * time.Second        // in which light requests are counted
	calmTime   = 8 * time.Second        // of the phase after the flood
	unsentMost = 0.05                   // of what is due: a generator that leaves out more was no load
)

// overloads is what the section of overload found. What the machine can do changes meanwhile, also by half, so that peaks and floods
// take turns, and all of them count together.
type overloads struct {
	Rounds       []*overloaded `json:"rounds"`
	GoodputRatio float64       `json:"goodput_ratio"` // of all floods to the peaks before and after each
	CostRatio    float64       `json:"cpu_ratio"`     // of the server's processor time for a fork, at the peaks to in the floods
	Eager        float64       `json:"eager_per_s"`   // made when a crowd asks again at once whatever the answer was
	EagerRatio   float64       `json:"eager_ratio"`   // to the last peak
}

// sum puts the rounds together, and returns what is wrong whatever the machine.
func (o *overloads) sum() (faults []error) {
	var good, peaks, cost, least, last float64
	for _, f := range o.Rounds {
		good, peaks = good+f.Goodput, peaks+(f.Peak+f.After)/2
		cost, least, last = cost+f.Cost, least+f.PeakCost, f.After
		faults = append(faults, f.faults()...)
	}
	o.GoodputRatio, o.CostRatio, o.EagerRatio = good/max(peaks, 1), least/max(cost, 1), o.Eager/max(last, 1)
	return faults
}

func (o *overloads) print(w io.Writer) {
	for _, f := range o.Rounds {
		f.print(w)
	}
	fmt.Fprintf(w, "           all %d floods: %.0f %% of the peaks (goal 90), and %.0f %% as many for the same processor time; %d clients that ask again at once whatever the answer: %.1f/s, %.0f %% of the last peak\n",
		len(o.Rounds), 100*o.GoodputRatio, 100*o.CostRatio, eager, o.Eager, 100*o.EagerRatio)
}

// overloaded is what one of its rounds found. Latencies are from the moment at which a request is due.
type overloaded struct {
	Light        float64 `json:"light_per_s"`   // answers of /healthz, by as many as for the peak: what generator and server can exchange
	Peak         float64 `json:"peak_per_s"`    // forks made, by as many as ask again when they are answered
	After        float64 `json:"after_per_s"`   // the same when all is over: what the machine can do changes
	Offered      float64 `json:"offered_per_s"` // due in the flood, whatever became of those before
	Sent         float64 `json:"sent_per_s"`
	Unsent       float64 `json:"unsent_per_s"` // the generator had no connection for them, or could make none
	LateP99      float64 `json:"late_p99_us"`  // from the moment at which one was due until it was sent
	Goodput      float64 `json:"goodput_per_s"`
	PeakCost     float64 `json:"peak_cpu_us"`     // of the server's processor time for a fork at the peaks
	Cost         float64 `json:"overload_cpu_us"` // the same in the flood, with all that is refused, as each that is not done costs too
	GoodputRatio float64 `json:"goodput_ratio"`   // to the mean of the two peaks
	Soon         float64 `json:"soon_per_s"`      // of it, within a second
	Late         float64 `json:"late_per_s"`      // done, but too late to be worth something
	Refused429   float64 `json:"refused_429_per_s"`
	Refused503   float64 `json:"refused_503_per_s"`
	Bad          int64   `json:"bad"`         // answers that are neither done nor 429 or 503 with Retry-After
	Broken       int64   `json:"broken"`      // connections that ended without an answer
	Connections  int     `json:"connections"` // that the generator needed
	DoneP99      float64 `json:"done_p99_us"` // in the flood
	RefusedP99   float64 `json:"refused_p99_us"`
	Cancels      int64   `json:"cancels"` // asked for in the flood
	CancelsDone  int64   `json:"cancels_done"`
	CancelP99    float64 `json:"cancel_p99_us"`
	HealthP99    float64 `json:"health_p99_us"`
	Recovery     float64 `json:"recovery_us"` // from the end of the flood until half of the peak is done as before it; -1: it was not
	Threads      int64   `json:"server_threads"`
	made         int64   // in the flood, in good time or not
	Before       int64   `json:"server_before_bytes"`
	During       int64   `json:"server_during_bytes"`
}

func (o *overloaded) print(w io.Writer) {
	fmt.Fprintf(w, "overload   peak %.0f forks/s before and %.0f after (light requests: %.0f/s); asked for %.0f/s, sent %.0f/s, not sent %.0f/s, sent late by p99 %.1f ms, over %d connections\n",
		o.Peak, o.After, o.Light, o.Offered, o.Sent, o.Unsent, o.LateP99/1000, o.Connections)
	fmt.Fprintf(w, "           done within 5 s %.1f/s: %.0f %% of the peak (goal 90), of it within a second %.1f/s, later %.1f/s; refused with 503 %.0f/s, with 429 %.0f/s; answered badly %d, not answered %d\n",
		o.Goodput, 100*o.GoodputRatio, o.Soon, o.Late, o.Refused503, o.Refused429, o.Bad, o.Broken)
	fmt.Fprintf(w, "           a fork takes the server's processor %.1f ms at the peaks and %.1f ms in the flood, what is refused with it: %.0f %% as many for the same\n",
		o.PeakCost/1000, o.Cost/1000, 100*o.PeakCost/max(o.Cost, 1))
	fmt.Fprintf(w, "           done p99 %.0f ms, refused p99 %.0f ms, health p99 %.0f ms; %d of %d cancels got through, p99 %.0f ms\n",
		o.DoneP99/1000, o.RefusedP99/1000, o.HealthP99/1000, o.CancelsDone, o.Cancels, o.CancelP99/1000)
	recovered := fmt.Sprintf("recovered after %.1f s", o.Recovery/1e6)
	if o.Recovery < 0 {
		recovered = fmt.Sprintf("not recovered within %.0f s", calmTime.Seconds())
	}
	fmt.Fprintf(w, "           %s (goal 5); server %.1f MiB before, %.1f MiB at most, %d threads\n",
		recovered, float64(o.Before)/mib, float64(o.During)/mib, o.Threads)
}

// answered is what became of one request.
type answered struct {
	due    time.Time     // when it was to be sent
	late   time.Duration // from then until it was sent
	took   time.Duration // from then to its answer
	status int           // 0: it was not sent; -1: not answered
	retry  bool          // the answer says when to come again
}

// storm is a server that is asked for more than it can do.
type storm struct {
	*server
	options
	request []byte

	mu     sync.Mutex
	idle   []chan time.Time // guarded by mu, as are the fields below; of connections that wait for what is due, each with a capacity of 1
	askers int
	all    []answered
	group  sync.WaitGroup
}

func measureOverload(ctx context.Context, o options, at site) (f printed, faults []error, err error) {
	s, st := at.server, &storm{server: at.server, options: o}
	eng, err := remote.New(remote.Config{URL: s.url, Token: s.token})
	if err != nil {
		return nil, nil, err
	}
	script := filepath.Join(at.dir, "none.yaml")
	if err := os.WriteFile(script, []byte("steps: [{text: ok, repeat: true}]"), 0o600); err != nil {
		return nil, nil, err
	}
	long, err := eng.NewSession(ctx, perdure.Agent{Name: "load", Model: "scripted:" + script})
	for range turns {
		if err == nil {
			err = eng.Send(ctx, long.ID, perdure.Text("go"))
		}
		if err == nil {
			err = eng.WaitIdle(ctx, long.ID)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	quiet, err := eng.NewSession(ctx, perdure.Agent{Name: "load"})
	if err != nil {
		return nil, nil, err
	}
	st.request = s.request("POST", "/v1/sessions/"+string(long.ID)+"/fork", "{}")
	fmt.Fprintf(at.progress, "load: %d times: what %s can do, for %s, then %d times that for %s, then half of it; then a crowd that asks again at once\n",
		o.rounds, s.url, o.phase, o.times, o.phase)
	found := &overloads{}
	light, _ := st.closed(ctx, asked{s.request("GET", "/healthz", ""), http.StatusOK, lightTime, atPeak})
	fork := asked{st.request, http.StatusCreated, st.phase, atPeak}
	peak, before := st.closed(ctx, fork)
	for range o.rounds {
		f := &overloaded{Light: light, Peak: peak, Before: s.residentBytes()}
		st.watched(ctx, f, quiet.ID)
		var after float64
		f.After, after = st.closed(ctx, fork)
		f.PeakCost = (before + after) / 2
		f.GoodputRatio = 2 * f.Goodput / max(f.Peak+f.After, 1)
		found.Rounds = append(found.Rounds, f)
		peak, before = f.After, after
	}
	fork.askers = eager
	found.Eager, _ = st.closed(ctx, fork)
	return found, found.sum(), ctx.Err()
}

// watched is a flood of a server whose memory is looked at meanwhile.
func (st *storm) watched(ctx context.Context, f *overloaded, quiet perdure.SessionID) {
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { st.watch(watching) })
	round := &storm{server: st.server, options: st.options, request: st.request}
	round.flood(ctx, f, quiet)
	f.During, f.Threads = st.most.Load(), st.threads()
	stop()
	group.Wait()
}

// faults are what is wrong whatever the machine.
func (o *overloaded) faults() []error {
	var all []error
	if o.Bad > 0 || o.Broken > 0 {
		all = append(all, fmt.Errorf("overload: %d answers were neither done nor refused with Retry-After, and %d requests were not answered", o.Bad, o.Broken))
	}
	if o.CancelsDone < o.Cancels {
		all = append(all, fmt.Errorf("overload: %d of %d cancels did not get through", o.Cancels-o.CancelsDone, o.Cancels))
	}
	if o.Unsent > unsentMost*o.Offered {
		all = append(all, fmt.Errorf("overload: %.0f of %.0f requests a second were not sent: that was not what it says", o.Unsent, o.Offered))
	}
	return all
}

// asked is what those who ask again when they are answered ask for.
type asked struct {
	request []byte
	want    int // the status of one that is done
	length  time.Duration
	askers  int
}

// closed is how much is done in a second for those who ask again as soon as they are answered, and what each took of the server's
// processor time, in microseconds.
func (st *storm) closed(ctx context.Context, a asked) (perSecond, cost float64) {
	busy, over := st.busy(), time.Now().Add(a.length)
	var done atomic.Int64
	var group sync.WaitGroup
	for range a.askers {
		group.Go(func() {
			c, err := st.dial()
			for err == nil && time.Now().Before(over) && ctx.Err() == nil {
				var status int
				if status, _, _, err = c.ask(a.request); status == a.want {
					done.Add(1)
				}
			}
			if c != nil {
				_ = c.Close()
			}
		})
	}
	began := time.Now()
	group.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), each(st.busy()-busy, done.Load())
}

// each is what one of n took, in microseconds.
func each(all time.Duration, n int64) float64 {
	return float64(all.Microseconds()) / float64(max(n, 1))
}

// flood asks for many times the peak, and then for half of it.
func (st *storm) flood(ctx context.Context, f *overloaded, quiet perdure.SessionID) {
	asking, stop := context.WithCancel(ctx)
	cancels := &storm{server: st.server, request: st.server.request("POST", "/v1/sessions/"+string(quiet)+"/tasks/cancel", "{}")}
	health := &storm{server: st.server, request: st.server.request("GET", "/healthz", "")}
	var beside sync.WaitGroup
	for _, few := range []*storm{cancels, health} {
		beside.Go(func() { few.pace(asking, besides, st.phase) })
	}
	began, busy := time.Now(), st.busy()
	st.pace(asking, f.Peak*float64(st.times), st.phase)
	length := time.Since(began)
	busy = st.busy() - busy
	beside.Wait()
	ended := began.Add(length)
	st.pace(asking, f.Peak/2, calmTime)
	stop()
	for _, all := range []*storm{st, cancels, health} {
		all.group.Wait()
	}
	f.Connections = st.askers
	f.tell(st.all, ended, length)
	f.Cost = each(busy, f.made)
	f.besides(cancels.all, health.all)
	f.recovered(st.all, ended)
}

// pace sends requests when they are due, evenly, whatever becomes of those before.
func (st *storm) pace(ctx context.Context, perSecond float64, length time.Duration) {
	began := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for sent := 0; time.Since(began) < length; {
		for want := int(perSecond * time.Since(began).Seconds()); sent < want; sent++ {
			st.hand(ctx, began.Add(time.Duration(float64(sent)/perSecond*float64(time.Second))))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// hand gives what is due to a connection that waits for nothing, or to a new one.
func (st *storm) hand(ctx context.Context, due time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if last := len(st.idle) - 1; last >= 0 {
		st.idle[last] <- due
		st.idle = st.idle[:last]
		return
	}
	if st.askers == mostAskers {
		st.all = append(st.all, answered{due: due})
		return
	}
	st.askers++
	work := make(chan time.Time, 1)
	work <- due
	st.group.Go(func() { st.asker(ctx, work) })
}

// asker sends what is due, on a connection of its own. What is in work when ctx ends is waited for.
func (st *storm) asker(ctx context.Context, work chan time.Time) {
	var c *raw
	var mine []answered
	for {
		select {
		case due := <-work:
			var one answered
			c, one = st.one(c, st.request, due)
			mine = append(mine, one)
			st.mu.Lock()
			st.idle = append(st.idle, work)
			st.mu.Unlock()
			continue
		case <-ctx.Done():
		}
		if c != nil {
			_ = c.Close()
		}
		st.mu.Lock()
		st.all = append(st.all, mine...)
		st.mu.Unlock()
		return
	}
}

// one sends a request, on a connection that is made when there is none.
func (st *storm) one(c *raw, request []byte, due time.Time) (*raw, answered) {
	one := answered{due: due}
	var err error
	if c == nil {
		if c, err = st.dial(); err != nil {
			return nil, one
		}
	}
	one.late = time.Since(due)
	status, header, again, err := c.ask(request)
	one.status, one.took, one.retry = status, time.Since(due), header.Get("Retry-After") != ""
	if err != nil || !again {
		_ = c.Close()
		c = nil
	}
	if err != nil {
		one.status = -1
	}
	return c, one
}

// tell writes what became of the flood.
func (o *overloaded) tell(all []answered, ended time.Time, length time.Duration) {
	var done, refused, late []time.Duration
	var unsent, good, quick, slow, busy int
	begins := ended.Add(warming - length) // of what is counted as done, by when it was
	for _, one := range all {
		if one.due.After(ended) {
			continue
		}
		if one.status == 0 {
			unsent++
			continue
		}
		late = append(late, one.late)
		switch {
		case one.status == http.StatusCreated:
			done = append(done, one.took)
			at := one.due.Add(one.took)
			if !at.After(ended) {
				o.made++
			}
			switch {
			case at.Before(begins) || at.After(ended):
			case one.took > inTime:
				slow++
			default:
				good++
				if one.took <= soon {
					quick++
				}
			}
		case one.status == http.StatusServiceUnavailable && one.retry:
			refused = append(refused, one.took)
			busy++
		case one.status == http.StatusTooManyRequests && one.retry:
			refused = append(refused, one.took)
		case one.status == -1:
			o.Broken++
		default:
			o.Bad++
		}
	}
	per := func(n int) float64 { return float64(n) / length.Seconds() }
	o.Offered, o.Sent, o.Unsent = per(len(late)+unsent), per(len(late)), per(unsent)
	counted := (length - warming).Seconds()
	o.Goodput, o.Soon, o.Late = float64(good)/counted, float64(quick)/counted, float64(slow)/counted
	o.Refused503, o.Refused429 = per(busy), per(len(refused)-busy)
	o.LateP99, o.DoneP99, o.RefusedP99 = micros(late, 0.99), micros(done, 0.99), micros(refused, 0.99)
}

func (o *overloaded) besides(cancels, health []answered) {
	var took, healthy []time.Duration
	for _, one := range cancels {
		o.Cancels++
		if one.status == http.StatusOK || one.status == http.StatusAccepted {
			o.CancelsDone++
			took = append(took, one.took)
		}
	}
	for _, one := range health {
		healthy = append(healthy, one.took)
	}
	o.CancelP99, o.HealthP99 = micros(took, 0.99), micros(healthy, 0.99)
}

// recovered looks for the first window after the flood from which on 99 of 100 requests are done within a quarter of a second.
func (o *overloaded) recovered(all []answered, ended time.Time) {
	last := ended
	windows := make([][2]int, int(calmTime/window)) // done in good time, and all
	for _, one := range all {
		if n := int(one.due.Sub(ended) / window); one.due.After(ended) && n < len(windows) {
			windows[n][1]++
			if one.status == http.StatusCreated && one.took < 250*time.Millisecond {
				windows[n][0]++
			}
		}
	}
	for i, w := range slices.Backward(windows) {
		if 100*w[0] < 99*w[1] {
			last = ended.Add(time.Duration(i+1) * window)
			break
		}
	}
	if o.Recovery = float64(last.Sub(ended).Microseconds()); last.Sub(ended) >= calmTime {
		o.Recovery = -1
	}
}
