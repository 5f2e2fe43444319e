package temporal

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/perdure/perdure"
)

// The names of workflow types, activities and signals. Histories contain them: they never change.
const (
	sessionType     = "PerdureSession"
	runType         = "PerdureRun"
	maintenanceType = "PerdureMaintenance"

	driveActivity     = "PerdureDrive"
	runTaskActivity   = "PerdureRunTask"
	maintainActivity  = "PerdureMaintain"
	interruptActivity = "PerdureInterrupt"
	cancelActivity    = "PerdureCancelTask"

	wakeSignal = "wake"
)

// word is what prefixes, capabilities and ids of homes may consist of. Histories show them, and a
// payload with several of them must stay small.
var word = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,48}$`)

// How long the names are at most. A payload may have the name of a capability beside the id of a
// home.
const (
	mostWord       = 48
	mostCapability = 32
)

// names are the names of one installation in a namespace. All of them begin with the prefix.
//
// The general task queue is the prefix itself. A workflow always runs on it, so a workflow finds
// the other queues by the name of its own.
type names struct {
	prefix string
}

func (n names) session(id perdure.SessionID) string { return n.prefix + "/session/" + string(id) }
func (n names) run(id perdure.TaskID) string        { return n.prefix + "/run/" + string(id) }
func (n names) maintenance() string                 { return n.prefix + "/maintenance" }
func (n names) general() string                     { return n.prefix }
func (n names) home(id string) string               { return n.prefix + "/home/" + id }

// queue returns the task queue of a capability.
func (n names) queue(capability string) string {
	if capability == "" {
		return n.general()
	}
	return n.prefix + "/with/" + capability
}

// checkWord refuses a name that cannot be part of a task queue. The name is not repeated in full,
// since it may be very long.
func checkWord(what, name string, most int) error {
	if word.MatchString(name) && len(name) <= most {
		return nil
	}
	return fmt.Errorf("%w %s %q: use 1 to %d letters, digits, dots, hyphens or underscores",
		perdure.Invalid, what, strings.ToValidUTF8(name[:min(len(name), 60)], "?"), most)
}
