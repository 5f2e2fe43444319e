package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure"
)

// Config configures a scheduler. The zero value of a field is its default.
type Config struct {
	Client client.Client // required; Dial makes one
	// Namespace is that of Client. A store notes it as a part of its scheduler's name; default
	// "default".
	Namespace string
	Prefix    string // of all names in the namespace; default "perdure"
	Home      string // the id of this process's data directory; empty: it has none
	// Capabilities are what this process offers to work that needs it, such as "gpu". It also does
	// the work that needs none.
	Capabilities []string
	// CapabilityOf returns what work needs; empty: nothing. tool is empty for a session, whose
	// foreground calls run in the process that drives it; labels are those of the session. It does
	// no I/O, is called concurrently, and every process must answer the same. nil: nothing is
	// needed.
	CapabilityOf func(tool string, labels map[string]string) string
	// Heartbeat is how long Temporal waits for a sign of life before it moves work; default 5 s.
	// Each running session and task sends three signs in this time.
	Heartbeat time.Duration
	// Patience is how long work continues that Temporal has given up, so that the next grant finds
	// it in this process; default 15 s.
	Patience time.Duration
	// Tidy is the time between two passes over what expires, and Reconcile that between two passes
	// over what waits; default 5 s each.
	Tidy, Reconcile time.Duration
	// Drain is how long work may take to reach a safe point when the process stops; default 10 s.
	Drain time.Duration
	// Activities is how many sessions and tasks this process works on at most; default 1,000.
	Activities int
	Log        *slog.Logger // default: slog.Default()
}

// Scheduler schedules the work of an engine by Temporal. It is safe for concurrent use. What it
// hears before Run, and after it, is found by the reconciler.
type Scheduler struct {
	cfg   Config
	names names
	waker *waker
	runs  *runNotifier

	ensureEvery time.Duration // between two looks at the maintenance workflow

	mu   sync.Mutex
	host Host // guarded by mu; nil before Run
}

// New checks a configuration. It starts nothing and does not reach Temporal. Invalid: the error
// names the field.
func New(cfg Config) (*Scheduler, error) {
	if cfg.Client == nil {
		return nil, fmt.Errorf("%w configuration: Client is required: Dial makes one", perdure.Invalid)
	}
	cfg = withDefaults(cfg)
	if err := check(cfg); err != nil {
		return nil, err
	}
	s := &Scheduler{cfg: cfg, names: names{cfg.Prefix}, ensureEvery: time.Minute}
	s.waker, s.runs = newWaker(s.tell, cfg.Log), newRunNotifier(newStarter(s.names, cfg.Client))
	return s, nil
}

func withDefaults(cfg Config) Config {
	cfg.Namespace, cfg.Prefix = cmp.Or(cfg.Namespace, client.DefaultNamespace), cmp.Or(cfg.Prefix, defaultPrefix)
	for field, value := range map[*time.Duration]time.Duration{
		&cfg.Heartbeat: 5 * time.Second, &cfg.Patience: 15 * time.Second, &cfg.Drain: 10 * time.Second,
		&cfg.Tidy: 5 * time.Second, &cfg.Reconcile: 5 * time.Second,
	} {
		if *field == 0 {
			*field = value
		}
	}
	if cfg.Activities == 0 {
		cfg.Activities = 1000
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return cfg
}

// anyProcess lets any process run the next step of a workflow. Otherwise Temporal waits for the
// process that ran the former step, at least a second, and work would move that much later when
// that process has died. The histories that are replayed instead are short.
var anyProcess = sync.OnceFunc(func() { worker.SetStickyWorkflowCacheSize(0) })

// defaultPrefix begins all names in the namespace.
const defaultPrefix = "perdure"

// check refuses names and times that cannot work.
func check(cfg Config) error {
	errs := []error{checkWord("prefix", cfg.Prefix, mostWord)}
	if cfg.Home != "" {
		errs = append(errs, checkWord("home", cfg.Home, mostWord))
	}
	for _, c := range cfg.Capabilities {
		errs = append(errs, checkWord("capability", c, mostCapability))
	}
	if cfg.Heartbeat < time.Second { // the server's timers are not finer
		errs = append(errs, fmt.Errorf("%w heartbeat timeout %s: use 1s or more", perdure.Invalid, cfg.Heartbeat))
	}
	for name, d := range map[string]time.Duration{"Patience": cfg.Patience, "Drain": cfg.Drain, "Tidy": cfg.Tidy, "Reconcile": cfg.Reconcile} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%w configuration: %s is %s: use a positive time", perdure.Invalid, name, d))
		}
	}
	if cfg.Activities < 1 {
		errs = append(errs, fmt.Errorf("%w configuration: Activities is %d: use 1 or more", perdure.Invalid, cfg.Activities))
	}
	return errors.Join(errs...)
}

// StoreName is the name by which a store notes the scheduler on Temporal with this namespace and
// prefix.
func StoreName(namespace, prefix string) string { return "temporal:" + namespace + "/" + prefix }

// Name is the name by which a store notes this scheduler.
func (s *Scheduler) Name() string { return StoreName(s.cfg.Namespace, s.cfg.Prefix) }

// Wake says that the journal of a session has events that its driver may not have read. It does not
// block and does no I/O.
func (s *Scheduler) Wake(id perdure.SessionID) { s.waker.add(topic{session: id}) }

// StartQueued says that queued runs of a session may start; of any session if id is empty. It does
// not block and does no I/O.
func (s *Scheduler) StartQueued(id perdure.SessionID) { s.waker.add(topic{runs: true, session: id}) }

// tell reads from the store what a topic needs, and tells Temporal. A session whose driver reads
// what is new costs no signal.
func (s *Scheduler) tell(ctx context.Context, t topic) error {
	s.mu.Lock()
	host := s.host
	s.mu.Unlock()
	if t.runs {
		return s.runs.look(ctx, t, host.DueRuns, s.waker.add)
	}
	w, waits, err := host.DueSession(ctx, t.session)
	if err != nil || !waits {
		return absent(err)
	}
	return newStarter(s.names, s.cfg.Client).session(ctx, w)
}

// Run works on what Temporal hands out until ctx ends, and then stops: running work may reach a
// safe point, and another process continues it. While Temporal cannot be reached, Run waits for it.
// An error: Temporal stopped this process. Run turns the SDK's cache of workflows off, which all
// workers of a program share.
func (s *Scheduler) Run(ctx context.Context, h Host) error {
	anyProcess()
	s.mu.Lock()
	s.host = h
	s.mu.Unlock()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.waker.run(ctx) })
	a := s.activities(h)
	for _, queue := range s.queues() {
		running.Go(func() { s.poll(ctx, queue, a, fail) })
	}
	running.Go(func() { s.maintain(ctx) })
	<-ctx.Done()
	var fatal *fatalError
	if errors.As(context.Cause(ctx), &fatal) {
		return fatal
	}
	return nil
}

// queues are the task queues that this process polls, the general one first.
func (s *Scheduler) queues() []string {
	queues := []string{s.names.general()}
	if s.cfg.Home != "" {
		queues = append(queues, s.names.home(s.cfg.Home))
	}
	for _, c := range s.cfg.Capabilities {
		queues = append(queues, s.names.queue(c))
	}
	return queues
}

// activities returns the activities of this process.
func (s *Scheduler) activities(h Host) *activities {
	r := &reconciler{host: h, starter: newStarter(s.names, s.cfg.Client), every: s.cfg.Reconcile, now: time.Now}
	return &activities{
		host: h, every: s.cfg.Heartbeat / 3, timeout: s.cfg.Heartbeat, patience: s.cfg.Patience,
		tidyEvery: s.cfg.Tidy, reconcile: r.pass, log: s.cfg.Log,
		heartbeat: func(ctx context.Context, token []byte) error { return s.cfg.Client.RecordActivityHeartbeat(ctx, token) },
	}
}

// fatalError is what Temporal stopped a worker for.
type fatalError struct {
	queue string
	err   error
}

func (e *fatalError) Error() string { return fmt.Sprintf("poll task queue %s: %v", e.queue, e.err) }
func (e *fatalError) Unwrap() error { return e.err }

// poll takes the tasks of one queue until ctx ends. Only the general queue has workflows.
func (s *Scheduler) poll(ctx context.Context, queue string, a *activities, fail context.CancelCauseFunc) {
	for failures := 0; ; failures++ {
		w := worker.New(s.cfg.Client, queue, worker.Options{
			MaxConcurrentActivityExecutionSize: s.cfg.Activities,
			WorkerStopTimeout:                  s.cfg.Drain,
			DisableWorkflowWorker:              queue != s.names.general(),
			OnFatalError:                       func(err error) { fail(&fatalError{queue, err}) },
		})
		a.register(w)
		if queue == s.names.general() {
			workflows{s.cfg.Heartbeat}.register(w)
		}
		err := w.Start()
		if err == nil {
			<-ctx.Done()
			w.Stop()
			return
		}
		s.cfg.Log.Warn("Temporal does not hand out work yet; it is asked again.", "queue", queue, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(doubled(backOff, failures, backOffLimit)):
		}
	}
}

// maintain makes sure once a minute that the maintenance workflow runs: an operator may have ended
// it, or the namespace may have lost its data.
func (s *Scheduler) maintain(ctx context.Context) {
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = s.ensureEvery
		if err := s.ensureMaintenance(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("The maintenance workflow could not be started; it is tried again.", "err", err)
			wait = backOff
		}
	}
}

// ensureMaintenance starts the maintenance workflow if it does not run.
func (s *Scheduler) ensureMaintenance(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	_, err := s.cfg.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: s.names.maintenance(), TaskQueue: s.names.general(), WorkflowTaskTimeout: taskTimeout,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, maintenanceType, maintenanceState{})
	return err
}
