package supervise

import (
	"os"
	"syscall"
)

// In this test binary, which is also the supervisor of its commands, a process that reaches the
// step named in the file DIR.dies_at is killed there.
var _ = func() bool {
	onStep = func(dir, step string) {
		if wanted, err := os.ReadFile(dir + ".dies_at"); err != nil || string(wanted) != step {
			return
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	return true
}()
