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
	maxConnections = 7500 // connections of the generator, of the 8,192 that a server accepts
	// connections for the peak, each with one request at a time: enough to keep the server busy
	peakConnections     = 32
	retryingConnections = 1000 // connections that send again at once after any response
	turns               = 80   // of the session that is forked
	// a response is useful within this time: at the peak they take about a second
	usefulTime     = 5 * time.Second
	oneSecond      = time.Second            // also reported
	warmUpTime     = 2 * time.Second        // start of the flood, in which responses are not counted
	window         = 500 * time.Millisecond // of the recovery check
	backgroundRate = 10                     // cancels and health checks per second, independent of earlier ones
	lightTime      = 2 * time.Second        // duration of the measurement of light requests
	calmTime       = 8 * time.Second        // duration of the phase after the flood
	// fraction of the due requests: a generator that skips more produced no valid load
	maxUnsent = 0.05
)

// overloadResult are the results of the section overload. The speed of the machine varies, even by
// half, so that peaks and floods alternate, and are evaluated together.
type overloadResult struct {
	Rounds       []*overloadRound `json:"rounds"`
	GoodputRatio float64          `json:"goodput_ratio"` // of all floods, relative to the peaks before and after each
	// CPU time of the server per fork, at the peaks relative to the floods
	CostRatio  float64 `json:"cpu_ratio"`
	Eager      float64 `json:"eager_per_s"` // successful requests while many clients retry at once
	EagerRatio float64 `json:"eager_ratio"` // relative to the last peak
}

// sum combines the rounds, and returns violations that do not depend on the machine.
func (o *overloadResult) sum() (faults []error) {
	var good, peaks, cost, least, last float64
	for _, f := range o.Rounds {
		good, peaks = good+f.Goodput, peaks+(f.Peak+f.After)/2
		cost, least, last = cost+f.Cost, least+f.PeakCost, f.After
		faults = append(faults, f.faults()...)
	}
	o.GoodputRatio, o.CostRatio, o.EagerRatio = good/max(peaks, 1), least/max(cost, 1), o.Eager/max(last, 1)
	return faults
}

func (o *overloadResult) print(w io.Writer) {
	for _, f := range o.Rounds {
		f.print(w)
	}
	fmt.Fprintf(w, "           all %d floods: %.0f %% of the peaks (goal 90), and %.0f %% for the same CPU time; %d clients that retry at once: %.1f/s, %.0f %% of the last peak\n",
		len(o.Rounds), 100*o.GoodputRatio, 100*o.CostRatio, retryingConnections, o.Eager, 100*o.EagerRatio)
}

// overloadRound contains the results of one round. Latencies count from the time at which a request
// is due.
type overloadRound struct {
	// responses of /healthz with as many connections as for the peak: the limit of generator and
	// server
	Light        float64 `json:"light_per_s"`
	Peak         float64 `json:"peak_per_s"`    // successful forks with one request at a time per connection
	After        float64 `json:"after_per_s"`   // the same at the end, since the speed of the machine varies
	Offered      float64 `json:"offered_per_s"` // due in the flood, independent of earlier requests
	Sent         float64 `json:"sent_per_s"`
	Unsent       float64 `json:"unsent_per_s"` // the generator had no connection for them, or could open none
	LateP99      float64 `json:"late_p99_us"`  // from the due time until it was sent
	Goodput      float64 `json:"goodput_per_s"`
	PeakCost     float64 `json:"peak_cpu_us"`     // CPU time of the server per fork at the peaks
	Cost         float64 `json:"overload_cpu_us"` // the same in the flood, including the cost of refused requests
	GoodputRatio float64 `json:"goodput_ratio"`   // relative to the mean of the two peaks
	Soon         float64 `json:"soon_per_s"`      // of the goodput, within a second
	Late         float64 `json:"late_per_s"`      // successful, but too late
	Refused429   float64 `json:"refused_429_per_s"`
	Refused503   float64 `json:"refused_503_per_s"`
	Bad          int64   `json:"bad"`         // responses that are neither successful nor 429 or 503 with Retry-After
	Broken       int64   `json:"broken"`      // connections that ended without a response
	Connections  int     `json:"connections"` // used by the generator
	DoneP99      float64 `json:"done_p99_us"` // in the flood
	RefusedP99   float64 `json:"refused_p99_us"`
	Cancels      int64   `json:"cancels"` // requested in the flood
	CancelsDone  int64   `json:"cancels_done"`
	CancelP99    float64 `json:"cancel_p99_us"`
	HealthP99    float64 `json:"health_p99_us"`
	// from the end of the flood until half of the peak works as before; -1: never
	Recovery float64 `json:"recovery_us"`
	Threads  int64   `json:"server_threads"`
	made     int64   // in the flood, in time or not
	Before   int64   `json:"server_before_bytes"`
	During   int64   `json:"server_during_bytes"`
}

func (o *overloadRound) print(w io.Writer) {
	fmt.Fprintf(w, "overload   peak %.0f forks/s before and %.0f after (light requests: %.0f/s); due %.0f/s, sent %.0f/s, not sent %.0f/s, sent late by p99 %.1f ms, %d connections\n",
		o.Peak, o.After, o.Light, o.Offered, o.Sent, o.Unsent, o.LateP99/1000, o.Connections)
	fmt.Fprintf(w, "           done within 5 s %.1f/s: %.0f %% of the peak (goal 90), within a second %.1f/s, later %.1f/s; refused with 503 %.0f/s, with 429 %.0f/s; bad responses %d, no response %d\n",
		o.Goodput, 100*o.GoodputRatio, o.Soon, o.Late, o.Refused503, o.Refused429, o.Bad, o.Broken)
	fmt.Fprintf(w, "           CPU time per fork %.1f ms at the peaks, %.1f ms in the flood with refused requests: %.0f %% as many forks per CPU time\n",
		o.PeakCost/1000, o.Cost/1000, 100*o.PeakCost/max(o.Cost, 1))
	fmt.Fprintf(w, "           done p99 %.0f ms, refused p99 %.0f ms, health p99 %.0f ms; %d of %d cancels succeeded, p99 %.0f ms\n",
		o.DoneP99/1000, o.RefusedP99/1000, o.HealthP99/1000, o.CancelsDone, o.Cancels, o.CancelP99/1000)
	recovered := fmt.Sprintf("recovered after %.1f s", o.Recovery/1e6)
	if o.Recovery < 0 {
		recovered = fmt.Sprintf("not recovered within %.0f s", calmTime.Seconds())
	}
	fmt.Fprintf(w, "           %s (goal 5); server %.1f MiB before, %.1f MiB at most, %d threads\n",
		recovered, float64(o.Before)/mib, float64(o.During)/mib, o.Threads)
}

// requestResult is the result of one request.
type requestResult struct {
	due    time.Time     // due time
	late   time.Duration // from the due time until it was sent
	took   time.Duration // from the due time to the response
	status int           // 0: not sent; -1: no response
	retry  bool          // the response has Retry-After
}

// overloadRun is an overloaded server.
type overloadRun struct {
	*server
	options
	request []byte

	mu     sync.Mutex
	idle   []chan time.Time // guarded by mu, like the fields below; idle connections, each with capacity 1
	askers int
	all    []requestResult
	group  sync.WaitGroup
}

func measureOverload(ctx context.Context, o options, at environment) (f result, faults []error, err error) {
	s, st := at.server, &overloadRun{server: at.server, options: o}
	eng, err := remote.New(remote.Config{URL: s.url, Token: s.token})
	if err != nil {
		return nil, nil, err
	}
	script := filepath.Join(at.dir, "none.yaml")
	if err := os.WriteFile(script, []byte("steps: [{text: ok, repeat: true}]"), 0o600); err != nil {
		return nil, nil, err
	}
	long, err := eng.Sessions().Create(ctx, perdure.Agent{Name: "load", Model: "scripted:" + script})
	for range turns {
		if err == nil {
			_, err = eng.Send(ctx, long.ID, perdure.Text("go"))
		}
		if err == nil {
			err = eng.Sessions().WaitIdle(ctx, long.ID)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	quiet, err := eng.Sessions().Create(ctx, perdure.Agent{Name: "load"})
	if err != nil {
		return nil, nil, err
	}
	st.request = s.request("POST", "/v1/sessions/"+string(long.ID)+"/fork", "{}")
	fmt.Fprintf(at.progress, "load: %d rounds: the peak of %s for %s, %d times the peak for %s, half of it; at last clients that retry at once\n",
		o.rounds, s.url, o.phase, o.times, o.phase)
	found := &overloadResult{}
	light, _ := st.closed(ctx, requestPhase{s.request("GET", "/healthz", ""), http.StatusOK, lightTime, peakConnections})
	fork := requestPhase{st.request, http.StatusCreated, st.phase, peakConnections}
	peak, before := st.closed(ctx, fork)
	for range o.rounds {
		f := &overloadRound{Light: light, Peak: peak, Before: s.residentBytes()}
		st.watched(ctx, f, quiet.ID)
		var after float64
		f.After, after = st.closed(ctx, fork)
		f.PeakCost = (before + after) / 2
		f.GoodputRatio = 2 * f.Goodput / max(f.Peak+f.After, 1)
		found.Rounds = append(found.Rounds, f)
		peak, before = f.After, after
	}
	fork.askers = retryingConnections
	found.Eager, _ = st.closed(ctx, fork)
	return found, found.sum(), ctx.Err()
}

// watched is a flood during which the memory of the server is sampled.
func (st *overloadRun) watched(ctx context.Context, f *overloadRound, quiet perdure.SessionID) {
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { st.watch(watching) })
	round := &overloadRun{server: st.server, options: st.options, request: st.request}
	round.flood(ctx, f, quiet)
	f.During, f.Threads = st.maxResident.Load(), st.threads()
	stop()
	group.Wait()
}

// faults returns violations that do not depend on the machine.
func (o *overloadRound) faults() []error {
	var all []error
	if o.Bad > 0 || o.Broken > 0 {
		all = append(all, fmt.Errorf("overload: %d answers were neither done nor refused with Retry-After, and %d requests were not answered", o.Bad, o.Broken))
	}
	if o.CancelsDone < o.Cancels {
		all = append(all, fmt.Errorf("overload: %d of %d cancels failed", o.Cancels-o.CancelsDone, o.Cancels))
	}
	if o.Unsent > maxUnsent*o.Offered {
		all = append(all, fmt.Errorf("overload: %.0f of %.0f requests per second were not sent: the load is not valid",
			o.Unsent, o.Offered))
	}
	return all
}

// requestPhase is a request that is repeated after each response.
type requestPhase struct {
	request []byte
	want    int // the status of a success
	length  time.Duration
	askers  int
}

// closed returns the successful requests per second with one request at a time per connection, and
// the CPU time of the server per request, in microseconds.
func (st *overloadRun) closed(ctx context.Context, a requestPhase) (perSecond, cost float64) {
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

// each returns the average of n, in microseconds.
func each(all time.Duration, n int64) float64 {
	return float64(all.Microseconds()) / float64(max(n, 1))
}

// flood sends a multiple of the peak, and then half of it.
func (st *overloadRun) flood(ctx context.Context, f *overloadRound, quiet perdure.SessionID) {
	asking, stop := context.WithCancel(ctx)
	cancels := &overloadRun{server: st.server,
		request: st.server.request("POST", "/v1/sessions/"+string(quiet)+"/tasks/cancel", "{}")}
	health := &overloadRun{server: st.server, request: st.server.request("GET", "/healthz", "")}
	var beside sync.WaitGroup
	for _, few := range []*overloadRun{cancels, health} {
		beside.Go(func() { few.pace(asking, backgroundRate, st.phase) })
	}
	began, busy := time.Now(), st.busy()
	st.pace(asking, f.Peak*float64(st.times), st.phase)
	length := time.Since(began)
	busy = st.busy() - busy
	beside.Wait()
	ended := began.Add(length)
	st.pace(asking, f.Peak/2, calmTime)
	stop()
	for _, all := range []*overloadRun{st, cancels, health} {
		all.group.Wait()
	}
	f.Connections = st.askers
	f.tell(st.all, ended, length)
	f.Cost = each(busy, f.made)
	f.besides(cancels.all, health.all)
	f.recovered(st.all, ended)
}

// pace sends requests at an even rate, independent of earlier ones.
func (st *overloadRun) pace(ctx context.Context, perSecond float64, length time.Duration) {
	began := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for sent := 0; time.Since(began) < length; {
		for want := int(perSecond * time.Since(began).Seconds()); sent < want; sent++ {
			st.assign(ctx, began.Add(time.Duration(float64(sent)/perSecond*float64(time.Second))))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// assign passes a due request to an idle connection, or to a new one.
func (st *overloadRun) assign(ctx context.Context, due time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if last := len(st.idle) - 1; last >= 0 {
		st.idle[last] <- due
		st.idle = st.idle[:last]
		return
	}
	if st.askers == maxConnections {
		st.all = append(st.all, requestResult{due: due})
		return
	}
	st.askers++
	work := make(chan time.Time, 1)
	work <- due
	st.group.Go(func() { st.connection(ctx, work) })
}

// connection sends due requests on its own connection. A running request is completed after ctx
// ends.
func (st *overloadRun) connection(ctx context.Context, work chan time.Time) {
	var c *raw
	var mine []requestResult
	for {
		select {
		case due := <-work:
			var one requestResult
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

// one sends a request, on a connection that is opened if necessary.
func (st *overloadRun) one(c *raw, request []byte, due time.Time) (*raw, requestResult) {
	one := requestResult{due: due}
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

// tell evaluates the results of the flood.
func (o *overloadRound) tell(all []requestResult, ended time.Time, length time.Duration) {
	var done, refused, late []time.Duration
	var unsent, good, quick, slow, busy int
	begins := ended.Add(warmUpTime - length) // start of the counted period, by completion time
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
			case one.took > usefulTime:
				slow++
			default:
				good++
				if one.took <= oneSecond {
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
	counted := (length - warmUpTime).Seconds()
	o.Goodput, o.Soon, o.Late = float64(good)/counted, float64(quick)/counted, float64(slow)/counted
	o.Refused503, o.Refused429 = per(busy), per(len(refused)-busy)
	o.LateP99, o.DoneP99, o.RefusedP99 = micros(late, 0.99), micros(done, 0.99), micros(refused, 0.99)
}

func (o *overloadRound) besides(cancels, health []requestResult) {
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

// recovered finds the first window after the flood from which on 99 of 100 requests succeed within
// a quarter of a second.
func (o *overloadRound) recovered(all []requestResult, ended time.Time) {
	last := ended
	windows := make([][2]int, int(calmTime/window)) // in time, and all
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
