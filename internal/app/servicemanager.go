package app

import (
	"context"
	"log/slog"
	"os"

	"github.com/perdure/perdure/internal/egress"
)

// The states that a service manager understands (sd_notify(3)).
const (
	managerReady    = "READY=1"
	managerStopping = "STOPPING=1"
)

// serviceManager is the process that has started this one and waits for its state, as systemd does
// for a unit with Type=notify. The zero value is none.
type serviceManager struct {
	socket string // empty: there is none
	log    *slog.Logger
}

// findServiceManager reads NOTIFY_SOCKET. The variable is removed, so that no child process reports
// a state in place of this one.
func findServiceManager(log *slog.Logger) (serviceManager, error) {
	return serviceManager{socket: os.Getenv("NOTIFY_SOCKET"), log: log}, os.Unsetenv("NOTIFY_SOCKET")
}

// send reports a state. The server works without a manager that listens, so an error is only
// logged.
func (m serviceManager) send(ctx context.Context, state string) {
	if m.socket == "" {
		return
	}
	if err := egress.SendDatagram(ctx, m.socket, state); err != nil {
		m.log.Warn("service manager not notified", "state", state, "error", err)
	}
}
