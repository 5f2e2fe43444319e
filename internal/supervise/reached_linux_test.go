package supervise

import (
	"os"
	"syscall"
)

// In this test binary, which is also the supervisor of its commands, whoever comes to the step that the file DIR.dies_at
// names is killed there.
var _ = func() bool {
	reached = func(dir, step string) {
		if wanted, err := os.ReadFile(dir + ".dies_at"); err != nil || string(wanted) != step {
			return
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	return true
}()
