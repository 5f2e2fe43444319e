package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/cli"
)

// probeTime is how long the holder of a data directory may take to respond before it counts as
// gone.
const probeTime = 5 * time.Second

// remoteEngine is an engine in another process, which does the work. It is safe for concurrent use.
type remoteEngine struct {
	*remote.Engine

	mu   sync.Mutex
	used map[perdure.SessionID]string // guarded by mu; other models that sessions use from now on
}

var _ cli.Engine = (*remoteEngine)(nil)

// socketOutage is how long a command waits for the holder to come back. A restarting server is back
// soon; a `run` that has ended is not.
const socketOutage = 20 * time.Second

// newRemoteEngine returns the engine of a command for a remote engine.
func newRemoteEngine(eng *remote.Engine) *remoteEngine {
	return &remoteEngine{Engine: eng, used: map[perdure.SessionID]string{}}
}

// dial connects to the given server or else, for commands that write, to the holder of the data
// directory. It returns nil when there is neither. Commands that read have a reader instead.
func dial(ctx context.Context, o cli.OpenOptions) (cli.Engine, error) {
	cfg, socket := serverFor(o)
	if o.Server == "" {
		if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) || o.Access != cli.Writing {
			return nil, nil
		}
	}
	eng, err := remote.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	if o.Server == "" && !responds(ctx, cfg) {
		return nil, nil // the socket of a process that has crashed
	}
	if err := checkStores(ctx, o, eng); err != nil {
		eng.Close()
		return nil, err
	}
	return newRemoteEngine(eng), nil
}

// serverFor returns the server for an opening: the given one, or the holder of the data directory.
func serverFor(o cli.OpenOptions) (cfg remote.Config, socket string) {
	socket = filepath.Join(o.Dir, socketFile)
	switch {
	case o.Server == "":
		return remote.Config{URL: "unix://" + socket, Actor: "operator", Outage: socketOutage}, socket
	case strings.HasPrefix(o.Server, "unix://"): // a socket needs no token, and its owner may name the actor
		return remote.Config{URL: o.Server, Actor: "operator", Waiting: o.Waiting}, socket
	}
	return remote.Config{URL: o.Server, Token: os.Getenv("PERDURE_TOKEN"), Waiting: o.Waiting}, socket
}

// responds reports whether a process responds on a socket.
func responds(ctx context.Context, cfg remote.Config) bool {
	cfg.Retry = -1
	eng, err := remote.New(cfg)
	if err != nil {
		return false
	}
	defer eng.Close()
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	_, err = eng.Sessions().List(ctx, 1)
	return err == nil
}

// Run waits for ctx: the work is done in the other process.
func (f *remoteEngine) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// CheckModel implements cli.Engine. The keys of providers are checked by the server.
func (f *remoteEngine) CheckModel(name string) (string, error) {
	t, err := readTarget(name)
	if err != nil {
		return "", err
	}
	if t.provider == providerScripted {
		if _, err := readScript(t.name); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	switch {
	case t.isBuiltIn() && t.variable() != "" && t.base == "":
		return t.String(), f.checkKey(ctx, t)
	case !t.isBuiltIn():
		if _, err := f.Providers().Get(ctx, t.provider); errors.Is(err, perdure.NotFound) {
			return "", fmt.Errorf("%w model %q: the server has no provider %s; perdure provider list shows all, and "+
				"perdure provider set adds one", perdure.Invalid, name, t.provider)
		}
	}
	return t.String(), nil
}

// checkKey reports a key that the server does not have, before a session is made that could not
// answer. A caller who may not read the providers learns it from the first turn.
func (f *remoteEngine) checkKey(ctx context.Context, t target) error {
	all, err := f.Providers().List(ctx)
	if err != nil {
		return nil
	}
	for _, p := range all {
		if p.Name == t.provider && !p.Ready {
			return fmt.Errorf("%w model %q: %s is not set for the server; start the server with this variable, or store a key: perdure provider set %s",
				perdure.Invalid, t, t.variable(), t.provider)
		}
	}
	return nil
}

func (f *remoteEngine) UseModel(id perdure.SessionID, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[id] = name
}

// Send sends a message, with the model that is to answer it.
func (f *remoteEngine) Send(ctx context.Context, id perdure.SessionID, message perdure.Message) (engine.Sent, error) {
	f.mu.Lock()
	if name, ok := f.used[id]; ok && message.Model == "" {
		message.Model = name
	}
	f.mu.Unlock()
	return f.Engine.Send(ctx, id, message)
}

func (f *remoteEngine) Close() error {
	f.Engine.Close()
	return nil
}

var _ engine.Engine = (*remoteEngine)(nil)
