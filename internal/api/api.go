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

// Config is the configuration of an API. Engine is required; Token is required unless Local is set.
type Config struct {
	Engine engine.Engine
	// Token authenticates callers over TCP.
	Token string
	// Local states that the listener is a Unix socket that only its owner may open. No token is
	// required, and the header Perdure-Actor names the actor.
	Local      bool
	Keyring    *access.Keyring   // further tokens and their principals; nil: only Token is accepted
	Keys       Keys              // nil: a request with an idempotency key is refused with 501
	Disclosure Disclosure        // the maximum detail of errors; empty: standard
	Version    string            // version in the OpenAPI document; empty: dev
	Log        *slog.Logger      // nil: discarded
	Telemetry  *telemetry.Server // receives metrics and traces of requests; nil: none are recorded
	Metrics    http.Handler      // serves /metrics; nil: there are no metrics
	Manual     http.Handler      // serves /docs and /llms.txt; nil: there is no documentation
	URL        string            // public URL of this server, without a trailing slash; empty: unknown
	MCP        http.Handler      // serves authenticated requests to /mcp; nil: not found
	// Ready returns the checks of readiness; nil: there are none.
	Ready func(ctx context.Context) []Check
	// StorageIdentity returns the identity of the store; nil: requests for it are answered with
	// 503.
	StorageIdentity func(ctx context.Context) (engine.StorageIdentity, error)
	Machine         Machine // what the process knows about itself and its machine

	Timing    Timing
	Limits    Limits    // of the size of requests
	Admission Admission // limits of concurrent work
}

// Timing has the times of an API. The zero value has the defaults.
type Timing struct {
	Ping    time.Duration // interval of the comments that keep a stream alive; 0: 15 s
	Poll    time.Duration // minimum interval between two reads of a followed list; 0: 1 s
	Write   time.Duration // for each write to a client; 0: 13 s, which cuts a slow client within 15 s (H9, ST5)
	Read    time.Duration // for the body of a request; 0: 30 s
	MaxWait time.Duration // limit of ?wait=; 0: 60 s
}

// Limits bounds the size of requests. The zero value has the defaults.
type Limits struct {
	Body    int64 // bytes of a request body; 0: 4 MiB
	Message int64 // bytes of the body of a message, which may contain images; 0: 28 MiB
	Archive int64 // bytes of an imported session; 0: 256 MiB
	File    int64 // bytes of a file; 0: 100 MiB
	Headers int   // header lines of a request; 0: 200
	Target  int   // bytes of path and query; 0: 8 KiB
}

// API serves Perdure over HTTP. It is safe for concurrent use.
type API struct {
	cfg        Config
	mux        *http.ServeMux
	huma       huma.API
	cursors    cursors
	listings   listingCache
	feeds      sources[perdure.SessionID, *feed]
	eventCache eventCache
	listFeeds  sources[listFeedKey, *listFeed]
	queues     admissionQueues
	rate       *rate
	buffers    sync.Pool // of *chunkBuffer
	inProgress inProgressKeys
	locks      locks
	routes     map[string]route  // by method and path, as registered with the router
	probes     map[string]bool   // the paths of probes
	policies   map[string]policy // by method and path; empty: public

	refusalPace     access.RateLimiter[struct{}]
	refusals        atomic.Int64 // requests refused by admission control
	refusalsDelayed atomic.Int64 // refusals whose answer is being delayed
	refusalsLogged  atomic.Int64 // Unix nanoseconds of the last log line about refusals

	drain    sync.Once
	draining chan struct{} // closed by Drain
}

var _ http.Handler = (*API)(nil)

// New checks the configuration and creates an API. An Invalid error names the missing or wrong
// field.
func New(cfg Config) (*API, error) {
	if cfg.Engine == nil {
		return nil, fmt.Errorf("new API: %w configuration: Engine is required", perdure.Invalid)
	}
	if cfg.Token == "" && !cfg.Local {
		return nil, fmt.Errorf("new API: %w configuration: Token is required unless Local is set", perdure.Invalid)
	}
	if !cfg.Disclosure.valid() {
		return nil, fmt.Errorf("new API: %w configuration: Disclosure is %q; use generic, standard or detailed", perdure.Invalid, cfg.Disclosure)
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
		cfg: cfg, probes: map[string]bool{}, policies: map[string]policy{}, mux: http.NewServeMux(), cursors: newCursors(cfg.Token),
		inProgress: inProgressKeys{keys: map[string]bool{}}, locks: locks{held: map[string]*lock{}}, routes: map[string]route{}, draining: make(chan struct{}),
		queues: newAdmissionQueues(cfg.Admission), rate: newRate(cfg.Admission.Rate), buffers: sync.Pool{New: newChunkBuffer}, refusalPace: newRefusalPace(),
		eventCache: eventCache{engine: cfg.Engine, reads: make(chan struct{}, eventCacheReads), open: map[eventKey]*cachedEvent{}},
	}
	a.huma = humago.New(a.mux, document(cfg.Version))
	a.operations()
	return a, nil
}

func withDefaults(cfg Config) (_ Config, err error) {
	cfg.Timing.Ping = orDefault(cfg.Timing.Ping, 15*time.Second)
	cfg.Admission = cfg.Admission.withDefaults()
	cfg.Timing.Poll = orDefault(cfg.Timing.Poll, time.Second)
	cfg.Timing.Write = orDefault(cfg.Timing.Write, 13*time.Second)
	cfg.Timing.Read = orDefault(cfg.Timing.Read, 30*time.Second)
	cfg.Timing.MaxWait = orDefault(cfg.Timing.MaxWait, 60*time.Second)
	cfg.Limits.Body = orDefault(cfg.Limits.Body, 4<<20)
	cfg.Limits.Message = orDefault(cfg.Limits.Message, 28<<20)
	cfg.Limits.Archive = orDefault(cfg.Limits.Archive, 256<<20)
	cfg.Limits.File = orDefault(cfg.Limits.File, 100<<20)
	cfg.Limits.Headers = orDefault(cfg.Limits.Headers, 200)
	cfg.Limits.Target = orDefault(cfg.Limits.Target, 8<<10)
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

// Drain begins the shutdown of the API. From now on writes are refused with 503 and Retry-After,
// waiting requests are answered with the current state, and open streams receive `event: end` and
// close. Reads still work. Further calls do nothing.
func (a *API) Drain() { a.drain.Do(func() { close(a.draining) }) }

// isDraining reports whether Drain was called.
func (a *API) isDraining() bool {
	select {
	case <-a.draining:
		return true
	default:
		return false
	}
}

// maxHeaderBytes is the maximum size of a request header.
const maxHeaderBytes = 64 << 10

// NewServer returns an HTTP server with the limits required of a server on a public network. The
// caller passes it a listener, and calls Drain before it shuts the server down.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           markInHandler(handler),
		ConnContext:       withConn,
		ConnState:         unmarkIdleConn,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// operations registers all operations.
func (a *API) operations() {
	healthHandlers{a}.register()
	a.registerStorageIdentity()
	a.registerPrincipal()
	a.registerWork()
	manualHandlers{a}.register()
	machineHandlers{a}.register()
	sessionHandlers{a}.register()
	archiveHandlers{a}.register()
	messageHandlers{a}.register()
	eventHandlers{a}.register()
	eventHandlers{a}.registerState()
	topicHandlers{a}.register()
	callHandlers{a}.register()
	callHandlers{a}.registerHostCalls()
	approvalHandlers{a}.register()
	budgetHandlers{a}.register()
	taskHandlers{a}.register()
	deliveryHandlers{a}.register()
	scheduleHandlers{a}.register()
	webhookHandlers{a}.register()
	taskLogHandlers{a}.register()
	toolHandlers{a}.register()
	agentHandlers{a}.register()
	connectionHandlers{a}.register()
	harnessHandlers{a}.register()
	providerHandlers{a}.register()
	tokenHandlers{a}.register()
	auditHandlers{a}.register()
	fileHandlers{a}.register()
	valueHandlers{a}.register()
	resourceHandlers{a}.register()
	imageHandlers{a}.register()
	databaseHandlers{a}.register()
	paymentHandlers{a}.register()
	bulkHandlers{a}.register()
	a.closeRequests()
	a.nameSubject()
	a.describeConditions()
}
