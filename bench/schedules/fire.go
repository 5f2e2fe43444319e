package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// script answers every message.
const script = "steps: [{text: noted, repeat: true}]"

const (
	fewSchedules = 1_000 // baseline of the scan's growth
	scans        = 200
	batch        = 1_000 // schedules per commit
	page         = 32    // page size of a scan, like the engine's
	warmUp       = 2 * time.Second
	makeTime     = 10 * time.Millisecond // time limit to create one schedule
)

// tick is the input of the tool: the time of its fire.
type tick struct {
	At time.Time `json:"at"`
}

// fireRecorder collects the delays of runs.
type fireRecorder struct {
	mu   sync.Mutex
	lags map[string]time.Duration // guarded by mu; by idempotency key
	runs int                      // guarded by mu
}

func (s *fireRecorder) tick(_ context.Context, in tick, env tool.Env) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	s.lags[env.Call.Key] = time.Since(in.At)
	return "ticked", nil
}

// measure fills a store, measures the scan, and lets an engine fire. The faults are missing or
// duplicate fires.
func measure(ctx context.Context, o options, progress io.Writer) (f figures, faults []error, err error) {
	dir, err := os.MkdirTemp(o.dir, "schedules")
	if err != nil {
		return f, nil, err
	}
	defer os.RemoveAll(dir)
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Program: "schedules"})
	if err != nil {
		return f, nil, err
	}
	defer st.Close()
	watch := &fireRecorder{lags: map[string]time.Duration{}}
	w := &scheduleRig{st: st, watch: watch, progress: progress}
	if err := w.begin(ctx); err != nil {
		return f, nil, err
	}
	few := min(fewSchedules, o.schedules)
	f = figures{Version: 1, Schedules: o.schedules, Fires: o.due, Seconds: o.length.Seconds()}
	if err := w.fill(ctx, few); err != nil {
		return f, nil, err
	}
	small, err := w.scan(ctx)
	if err == nil {
		err = w.fill(ctx, o.schedules-few)
	}
	if err != nil {
		return f, nil, err
	}
	large, err := w.scan(ctx)
	if err != nil {
		return f, nil, err
	}
	f.FewP50, f.ScanP50, f.ScanP99 = micros(at(small, 0.5)), micros(at(large, 0.5)), micros(at(large, 0.99))
	f.ScanGrowth = f.ScanP50 / f.FewP50
	faults, err = w.fires(ctx, o, &f)
	return f, faults, err
}

// scheduleRig is a store with a session, and an engine.
type scheduleRig struct {
	st       store.Store
	watch    *fireRecorder
	progress io.Writer
	id       perdure.SessionID
}

// open creates an engine over the store, without limits.
func (w *scheduleRig) open(ctx context.Context) (*local.Engine, error) {
	m, err := scripted.Parse("schedules", []byte(script))
	if err != nil {
		return nil, err
	}
	ticks := tool.NewBackground(tool.Spec{Name: "tick", Description: "Ticks.", Class: perdure.Idempotent,
		NeedsEnv: true}, w.watch.tick)
	rules := perdure.DefaultScheduleRules()
	rules.PerSession, rules.PerOrg = 0, 0
	cfg := local.Config{
		Store: w.st, Model: m, Timing: local.Timing{Drain: -1},
		Limits: local.Limits{SlotsPerSession: -1, SlotsPerProcess: -1, QueueLength: 1_000_000},
		Tools:  tool.NewRegistry(append([]tool.Tool{ticks}, background.Tools(background.Config{})...)...),
	}
	cfg.Timekeeping.Schedules = rules
	return local.Open(ctx, cfg)
}

// begin creates the session.
func (w *scheduleRig) begin(ctx context.Context) error {
	eng, err := w.open(ctx)
	if err != nil {
		return err
	}
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	w.id = s.ID
	return err
}

// fill adds enabled schedules that are not due.
func (w *scheduleRig) fill(ctx context.Context, n int) error {
	fmt.Fprintf(w.progress, "creating %d schedules\n", n)
	next := time.Now().Add(24 * time.Hour)
	for from := 0; from < n; from += batch {
		err := w.st.InTx(ctx, func(tx store.Tx) error {
			var errs []error
			for i := from; i < min(from+batch, n); i++ {
				errs = append(errs,
					tx.Schedules().Put(w.schedule(tx.Now(), next.Add(time.Duration(i)*time.Millisecond)),
						store.ScheduleCaps{}))
			}
			return errors.Join(errs...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// schedule returns a schedule that fires once and runs the tool.
func (w *scheduleRig) schedule(now, when time.Time) perdure.Schedule {
	when = when.UTC().Truncate(time.Microsecond)
	args := fmt.Sprintf(`{"at":%q}`, when.Format(time.RFC3339Nano))
	s := perdure.Schedule{
		ID: core.NewID[perdure.ScheduleID](), Session: w.id, Title: "Tick", At: when,
		Action: perdure.ScheduleAction{Tool: "tick", Args: []byte(args)}, CreatedAt: now, UpdatedAt: now,
	}.WithDefaults(perdure.DefaultScheduleRules())
	return s.Arm(perdure.OnceAt(when), now)
}

// scan reads the due schedules, like the engine.
func (w *scheduleRig) scan(ctx context.Context) (took []time.Duration, err error) {
	for range scans {
		began := time.Now()
		err := w.st.View(ctx, func(r store.Reader) error {
			_, err := r.Schedules().Due(time.Time{}, r.Now(), page)
			return err
		})
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, nil
}

// fires lets an engine fire, and compares the rows with the expected fires.
func (w *scheduleRig) fires(ctx context.Context, o options, f *figures) (faults []error, err error) {
	eng, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	first, err := w.due(ctx, eng, began, options{due: 1}) // fires as soon as the engine scans
	if err != nil {
		return nil, err
	}
	work, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(work) }()
	rows, err := w.rows(ctx, first)
	if err != nil {
		return nil, err
	}
	f.StartUS = micros(rows[0].Actual.Sub(began))
	fmt.Fprintf(w.progress, "%d fires within %s\n", o.due, o.length)
	all, err := w.due(ctx, eng, time.Now().Add(warmUp+time.Duration(o.due)*makeTime), o)
	if err == nil {
		rows, err = w.rows(ctx, all)
	}
	if err != nil {
		return nil, err
	}
	for range 100 { // the last runs end
		if w.watch.count() >= o.due+1 {
			break
		}
		pause(ctx, 100*time.Millisecond)
	}
	end()
	err = <-ended
	var lags []time.Duration
	for _, row := range rows {
		if lags = append(lags, row.Actual.Sub(row.Nominal)); row.Outcome != perdure.Fired {
			faults = append(faults, fmt.Errorf("%s for %s: %s %s", row.Schedule, row.Nominal, row.Outcome, row.Reason))
		}
	}
	slices.Sort(lags)
	runs := w.watch.sorted()
	f.LagP50, f.LagP99, f.RunP50, f.RunP99 = micros(at(lags, 0.5)), micros(at(lags, 0.99)), micros(at(runs, 0.5)),
		micros(at(runs, 0.99))
	if len(runs) != o.due+1 || w.watch.count() != o.due+1 {
		faults = append(faults, fmt.Errorf("%d of %d fires have a run, and %d runs began", len(runs), o.due+1,
			w.watch.count()))
	}
	return faults, err
}

// due creates schedules that fire from a time on.
func (w *scheduleRig) due(ctx context.Context, eng *local.Engine, from time.Time,
	o options) (ids []perdure.ScheduleID, err error) {
	for i := range o.due {
		order := w.schedule(from, from.Add(time.Duration(i)*o.length/time.Duration(o.due)))
		made, err := eng.Schedules().Create(ctx,
			perdure.Schedule{Session: w.id, Title: order.Title, At: order.At, Action: order.Action})
		if err != nil {
			return nil, err
		}
		ids = append(ids, made.ID)
	}
	return ids, nil
}

// rows waits until each schedule has its row.
func (w *scheduleRig) rows(ctx context.Context, ids []perdure.ScheduleID) (rows []perdure.Fire, err error) {
	for {
		err := w.st.View(ctx, func(r store.Reader) error {
			for len(rows) < len(ids) {
				fires, err := r.Schedules().Fires(ids[len(rows)], 0)
				if err != nil || len(fires) == 0 {
					return err
				}
				rows = append(rows, fires[0])
			}
			return nil
		})
		if err != nil || len(rows) == len(ids) {
			return rows, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func (s *fireRecorder) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

func (s *fireRecorder) sorted() (all []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lag := range s.lags {
		all = append(all, lag)
	}
	slices.Sort(all)
	return all
}

// at returns a percentile of a sorted sample.
func at(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
