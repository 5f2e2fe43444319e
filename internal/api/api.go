package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/telemetry"
)

// Config is what an API is made of. Engine is required, and Token unless the API is Local.
type Config struct {
	Engine engine.Engine
	// Token is what callers prove themselves with, over TCP.
	Token string
	// Local says that the listener is a Unix socket which only its owner may open: no token is asked for, and
	// Perdure-Actor says who acts.
	Local      bool
	Keyring    *access.Keyring                                 // who else is let in; nil: who has Token
	Keys       Keys                                            // nil: a request with an idempotency key is refused (501)
	Ready      func(ctx context.Context) []Check               // what readiness depends on; nil: nothing
	Place      func(ctx context.Context) (engine.Place, error) // where sessions are kept; nil: it is not said (503)
	Disclosure Disclosure                                      // the most that an error says; empty: standard (ER4)
	Version    string                                          // in the document; empty: dev
	Log        *slog.Logger                                    // nil: discarded
	Telemetry  *telemetry.Server                               // is told of requests; nil: nobody is
	Metrics    http.Handler                                    // answers on /metrics; nil: there are no figures
	Manual     http.Handler                                    // answers on /docs and /llms.txt; nil: there are no documents
	URL        string                                          // under which clients find this server, without a slash at its end; empty: they know
	MCP        http.Handler                                    // answers on /mcp who was let in; nil: there is nothing there

	Ping          time.Duration // between the comments that keep a stream alive; 0: 15 s
	Look          time.Duration // between two looks at a list that is followed, at least; 0: 1 s
	WriteTimeout  time.Duration // for each write to a client; 0: 13 s, so that with what is before it a slow one is cut within 15 (H9, ST5)
	ReadTimeout   time.Duration // for the body of a request; 0: 30 s
	Admission     Admission     // how much is taken on at a time
	MaxWait       time.Duration // of ?wait=; 0: 60 s
	MaxBody       int64         // bytes of a request's body; 0: 4 MiB
	MaxImages     int64         // bytes of the body of a message, which may hold images; 0: 28 MiB
	MaxArchive    int64         // bytes of a session that is imported; 0: 256 MiB
	MaxFile       int64         // bytes of a file; 0: 100 MiB
	MaxHeaders    int           // lines in the header of a request; 0: 200
	MaxTargetSize int           // bytes of path and query; 0: 8 KiB
}

// API serves Perdure over HTTP. It is safe for concurrent use.
type API struct {
	cfg      Config
	mux      *http.ServeMux
	huma     huma.API
	cursors  cursors
	kept     kept
	feeds    sources[perdure.SessionID, *feed]
	olds     olds
	boards   sources[boardKey, *board]
	gates    gates
	rate     *rate
	chunks   sync.Pool // see line
	work     inWork
	locks    locks
	routes   map[string]route  // by method and path, as the router has them
	policies map[string]policy // by method and path; empty: open

	refusalPace  access.Pace[struct{}]
	refusals     atomic.Int64 // requests that were not let in
	refusalsSlow atomic.Int64 // of them, those that wait until they may be told
	refusalsSaid atomic.Int64 // nanoseconds: when the log was told of them

	drain    sync.Once
	draining chan struct{} // closed by Drain
}

var _ http.Handler = (*API)(nil)

// New checks the configuration and makes an API. Invalid: what is missing.
func New(cfg Config) (*API, error) {
	if cfg.Engine == nil {
		return nil, fmt.Errorf("new API: %w configuration: Engine is required", perdure.Invalid)
	}
	if cfg.Token == "" && !cfg.Local {
		return nil, fmt.Errorf("new API: %w configuration: over TCP a Token is required", perdure.Invalid)
	}
	if !cfg.Disclosure.valid() {
		return nil, fmt.Errorf("new API: %w configuration: Disclosure %q: generic, standard or detailed", perdure.Invalid, cfg.Disclosure)
	}
	cfg, err := withDefaults(cfg)
	if err != nil {
		return nil, fmt.Errorf("new API: %w", err)
	}
	if cfg.Keyring == nil {
		cfg.Keyring = access.NewKeyring(access.Config{Root: cfg.Token, Log: cfg.Log})
	}
	useProblems()
	a := &API{
		cfg: cfg, policies: map[string]policy{}, mux: http.NewServeMux(), cursors: newCursors(cfg.Token),
		work: inWork{keys: map[string]bool{}}, locks: locks{held: map[string]*lock{}}, routes: map[string]route{}, draining: make(chan struct{}),
		gates: newGates(cfg.Admission), rate: newRate(cfg.Admission.Rate), refusalPace: newRefusalPace(),
		olds: olds{engine: cfg.Engine, reads: make(chan struct{}, oldReads), open: map[oldKey]*old{}},
	}
	a.huma = humago.New(a.mux, document(cfg.Version))
	a.operations()
	return a, nil
}

func withDefaults(cfg Config) (_ Config, err error) {
	cfg.Ping = orDefault(cfg.Ping, 15*time.Second)
	cfg.Admission = cfg.Admission.withDefaults()
	cfg.Look = orDefault(cfg.Look, time.Second)
	cfg.WriteTimeout = orDefault(cfg.WriteTimeout, 13*time.Second)
	cfg.ReadTimeout = orDefault(cfg.ReadTimeout, 30*time.Second)
	cfg.MaxWait = orDefault(cfg.MaxWait, 60*time.Second)
	cfg.MaxBody = orDefault(cfg.MaxBody, 4<<20)
	cfg.MaxImages = orDefault(cfg.MaxImages, 28<<20)
	cfg.MaxArchive = orDefault(cfg.MaxArchive, 256<<20)
	cfg.MaxFile = orDefault(cfg.MaxFile, 100<<20)
	cfg.MaxHeaders = orDefault(cfg.MaxHeaders, 200)
	cfg.MaxTargetSize = orDefault(cfg.MaxTargetSize, 8<<10)
	cfg.Disclosure = orDefault(cfg.Disclosure, Standard)
	cfg.Version = orDefault(cfg.Version, "dev")
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Telemetry == nil {
		cfg.Telemetry, err = telemetry.NewServer(nil, nil)
	}
	return cfg, err
}

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Drain lets the API come to its end: from now on writes are refused with 503 and Retry-After, what Waits is
// answered as it stands, and open streams get `event: end` and close. Reads still work. Draining again does nothing.
func (a *API) Drain() { a.drain.Do(func() { close(a.draining) }) }

// drains reports whether Drain was called.
func (a *API) drains() bool {
	select {
	case <-a.draining:
		return true
	default:
		return false
	}
}

// maxHeaderBytes is how long the header of a request may be.
const maxHeaderBytes = 64 << 10

// NewServer returns an HTTP server for an API with the limits that a server facing strangers needs (S6). The
// caller gives it a listener and shuts it down, after Drain.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handOver(handler),
		ConnContext:       knowConnection,
		ConnState:         takeBack,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// operations registers all that the API answers.
func (a *API) operations() {
	a.healthOperations()
	a.placeOperations()
	a.manualOperations()
	a.sessionOperations()
	a.archiveOperations()
	a.messageOperations()
	a.eventOperations()
	a.topicOperations()
	a.callOperations()
	a.hostCallOperations()
	a.approvalOperations()
	a.budgetOperations()
	a.taskOperations()
	a.deliveryOperations()
	a.scheduleOperations()
	a.webhookOperations()
	a.taskLogOperations()
	a.toolOperations()
	a.agentOperations()
	a.harnessOperations()
	a.tokenOperations()
	a.auditOperations()
	a.fileOperations()
	a.valueOperations()
	a.resourceOperations()
	a.bulkOperations()
	a.closeRequests()
	a.describeConditions()
}
