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
	askers   = 500                    // connections of the generator
	atPeak   = 128                    // of them that ask for the peak, each when it was answered
	ready    = 64                     // requests that wait for a connection of the generator; one more is not sent
	inTime   = time.Second            // within which an answer is worth something
	window   = 500 * time.Millisecond // in which recovery is looked for
	besides  = 100 * time.Millisecond // between two cancels, and two looks at health
	calmTime = 8 * time.Second        // of the phase after the flood
)

// overloaded is what the section of overload found. Latencies are of what was done.
type overloaded struct {
	Peak         float64 `json:"peak_per_s"`    // sessions made, by as many as ask again when they are answered
	Offered      float64 `json:"offered_per_s"` // in the flood, of new requests, whatever became of the others
	Unsent       float64 `json:"unsent_per_s"`  // of those: no connection of the generator was free
	Goodput      float64 `json:"goodput_per_s"` // done within a second
	GoodputRatio float64 `json:"goodput_ratio"` // to the peak
	Refused      float64 `json:"refused_per_s"` // with 503 or 429 and Retry-After
	Bad          int64   `json:"bad"`           // answers that are neither
	DoneP99      float64 `json:"done_p99_us"`   // in the flood
	RefusedP99   float64 `json:"refused_p99_us"`
	Cancels      int64   `json:"cancels"` // asked for in the flood
	CancelsDone  int64   `json:"cancels_done"`
	CancelP99    float64 `json:"cancel_p99_us"`
	HealthP99    float64 `json:"health_p99_us"`
	Recovery     float64 `json:"recovery_us"` // from the end of the flood until half of the peak is done as before it; -1: it was not
	Threads      int64   `json:"server_threads"`
	Before       int64   `json:"server_before_bytes"`
	During       int64   `json:"server_during_bytes"`
}

func (o *overloaded) print(w io.Writer) {
	fmt.Fprintf(w, "overload   peak %.0f/s; %.0f/s asked for, %.0f/s done within a second: %.0f %% of the peak (goal 90); %.0f/s refused, %.0f/s not even sent, %d bad\n",
		o.Peak, o.Offered, o.Goodput, 100*o.GoodputRatio, o.Refused, o.Unsent, o.Bad)
	fmt.Fprintf(w, "           done p99 %.0f ms, refused p99 %.0f ms, health p99 %.0f ms; %d of %d cancels got through, p99 %.0f ms\n",
		o.DoneP99/1000, o.RefusedP99/1000, o.HealthP99/1000, o.CancelsDone, o.Cancels, o.CancelP99/1000)
	fmt.Fprintf(w, "           recovered after %.1f s (goal 5); server %.1f MiB before, %.1f MiB at most, %d threads\n",
		o.Recovery/1e6, float64(o.Before)/mib, float64(o.During)/mib, o.Threads)
}

// answered is what became of one request.
type answered struct {
	due    time.Time     // when it was to be sent
	took   time.Duration // from then to its answer
	status int           // 0: it was not sent, or not answered
	retry  bool          // the answer says when to come again
}

// storm is a server that is asked for more than it can do.
type storm struct {
	*server
	options
	request []byte
	due     chan time.Time // when each request is to be sent
	mu      sync.Mutex
	all     []answered // guarded by mu
}

func measureOverload(ctx context.Context, o options, at site) (f printed, faults []error, err error) {
	s, st := at.server, &storm{server: at.server, options: o, due: make(chan time.Time, ready)}
	st.request = s.request("POST", "/v1/sessions", `{"agent":{"name":"load","model":"scripted:none.yaml"}}`)
	eng, err := remote.New(remote.Config{URL: s.url, Token: s.token})
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(at.dir, "none.yaml"), []byte("steps: [{text: ok, repeat: true}]"), 0o600); err != nil {
		return nil, nil, err
	}
	quiet, err := eng.NewSession(ctx, perdure.Agent{Name: "load"})
	if err != nil {
		return nil, nil, err
	}
	found := &overloaded{}
	fmt.Fprintf(at.progress, "load: what %s can do, for %s; then %d times that for %s, then half of it\n", s.url, o.phase, o.times, o.phase)
	found.Peak = st.peak(ctx)
	found.Before = s.residentBytes()
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { s.watch(watching) })
	st.flood(ctx, found, quiet.ID)
	found.During, found.Threads = s.most.Load(), s.threads()
	stop()
	group.Wait()
	return found, found.faults(), ctx.Err()
}

// faults are what is wrong whatever the machine.
func (o *overloaded) faults() []error {
	var all []error
	if o.Bad > 0 {
		all = append(all, fmt.Errorf("overload: %d answers were neither done nor refused with Retry-After", o.Bad))
	}
	if o.CancelsDone < o.Cancels {
		all = append(all, fmt.Errorf("overload: %d of %d cancels did not get through", o.Cancels-o.CancelsDone, o.Cancels))
	}
	return all
}

// peak is how much is done in a second by those who ask again as soon as they are answered.
func (st *storm) peak(ctx context.Context) float64 {
	over := time.Now().Add(st.phase)
	var done atomic.Int64
	var group sync.WaitGroup
	for range atPeak {
		group.Go(func() {
			c, err := st.dial()
			for err == nil && time.Now().Before(over) && ctx.Err() == nil {
				var status int
				if status, _, _, err = c.ask(st.request); status == http.StatusCreated {
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
	return float64(done.Load()) / time.Since(began).Seconds()
}

// flood asks for many times the peak, and then for half of it.
func (st *storm) flood(ctx context.Context, f *overloaded, quiet perdure.SessionID) {
	asking, stop := context.WithCancel(ctx)
	var group, beside sync.WaitGroup
	for range askers {
		group.Go(func() { st.asker(asking) })
	}
	flooding, calm := context.WithCancel(asking)
	cancel := st.server.request("POST", "/v1/sessions/"+string(quiet)+"/tasks/cancel", "{}")
	var cancels, health []answered
	beside.Go(func() { cancels = st.beside(flooding, cancel) })
	beside.Go(func() { health = st.beside(flooding, st.server.request("GET", "/healthz", "")) })
	began := time.Now()
	st.pace(ctx, f.Peak*float64(st.times), st.phase)
	length := time.Since(began)
	calm()
	beside.Wait()
	ended := began.Add(length)
	st.pace(ctx, f.Peak/2, calmTime)
	stop()
	group.Wait()
	f.tell(st.all, ended, length)
	f.besides(cancels, health)
	f.recovered(st.all, ended)
}

// pace hands out requests evenly, whatever becomes of those before.
func (st *storm) pace(ctx context.Context, perSecond float64, length time.Duration) {
	var unsent []answered
	defer func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.all = append(st.all, unsent...)
	}()
	began := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for sent := 0; time.Since(began) < length; {
		for want := int(perSecond * time.Since(began).Seconds()); sent < want; sent++ {
			due := began.Add(time.Duration(float64(sent) / perSecond * float64(time.Second)))
			select {
			case st.due <- due:
			default: // all connections wait for an answer
				unsent = append(unsent, answered{due: due})
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// asker sends what is due.
func (st *storm) asker(ctx context.Context) {
	var c *raw
	var mine []answered
	for {
		var due time.Time
		select {
		case due = <-st.due:
		case <-ctx.Done():
			if c != nil {
				_ = c.Close()
			}
			st.mu.Lock()
			st.all = append(st.all, mine...)
			st.mu.Unlock()
			return
		}
		var one answered
		c, one = st.one(c, st.request, due)
		mine = append(mine, one)
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

// beside sends the same request now and then.
func (st *storm) beside(ctx context.Context, request []byte) (all []answered) {
	var c *raw
	tick := time.NewTicker(besides)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			var one answered
			c, one = st.one(c, request, time.Now())
			all = append(all, one)
		case <-ctx.Done():
			if c != nil {
				_ = c.Close()
			}
			return all
		}
	}
}

// tell writes what became of the flood.
func (o *overloaded) tell(all []answered, ended time.Time, length time.Duration) {
	var done, refused []time.Duration
	good, offered, unsent := 0, 0, 0
	for _, one := range all {
		if one.due.After(ended) {
			continue
		}
		offered++
		switch {
		case one.status == 0:
			unsent++
		case one.status == http.StatusCreated:
			done = append(done, one.took)
			if one.took <= inTime {
				good++
			}
		case (one.status == http.StatusServiceUnavailable || one.status == http.StatusTooManyRequests) && one.retry:
			refused = append(refused, one.took)
		default:
			o.Bad++
		}
	}
	per := func(n int) float64 { return float64(n) / length.Seconds() }
	o.Offered, o.Unsent, o.Goodput, o.Refused = per(offered), per(unsent), per(good), per(len(refused))
	o.GoodputRatio = o.Goodput / max(o.Peak, 1)
	o.DoneP99, o.RefusedP99 = micros(done, 0.99), micros(refused, 0.99)
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
