package perdure

import "time"

// ProcessState says what is known of the processes of a task.
type ProcessState string

// The states of the processes of a task.
const (
	ProcessNone       ProcessState = "none"        // no process belongs to it: its tool starts none of its own
	ProcessNotStarted ProcessState = "not_started" // its tool starts one, and has not done so, or its files are removed
	ProcessRunning    ProcessState = "running"     // under a supervisor, which is alive
	ProcessEnded      ProcessState = "ended"       // the supervisor recorded how
	ProcessLost       ProcessState = "lost"        // the supervisor is dead, and did not record how it ended
	ProcessElsewhere  ProcessState = "elsewhere"   // at another home, which alone can see it
)

// TaskProcesses is what runs on a machine for the last execution of a task, at one moment. Secrets
// in its texts are masked, and no environment is in it.
type TaskProcesses struct {
	Task      TaskID       `json:"task_id"`
	Tool      string       `json:"tool"`
	Kind      TaskKind     `json:"kind"`
	State     ProcessState `json:"state"`
	Execution int          `json:"execution,omitempty"`
	// Home is the data directory that the processes belong to, and Host the machine of its last
	// worker. Empty: that is not known, or there are no processes.
	Home HomeID    `json:"home_id,omitempty"`
	Host string    `json:"host,omitempty"`
	At   time.Time `json:"observed_at"`

	Supervisor *Supervisor `json:"supervisor,omitempty"` // nil: the command has not started
	Sandbox    *Sandbox    `json:"sandbox,omitempty"`    // nil: none confines the command
	// Processes are the running ones, each after its parent, at most 200 of them. Count has all.
	Processes []Process `json:"processes"`
	Count     int       `json:"count"`
	// CPUMS is the processor time that the execution has used so far, in milliseconds, with that of
	// its ended processes.
	CPUMS int64        `json:"cpu_ms"`
	End   *ProcessEnd  `json:"end,omitempty"` // nil unless ended
	Files []OutputFile `json:"files"`         // of the output, on the machine of the processes
}

// Supervisor is the process that holds the command of a task.
type Supervisor struct {
	PID        int       `json:"pid"`
	IsAlive    bool      `json:"alive"`
	CommandPID int       `json:"command_pid,omitempty"` // 0: the command was not running yet
	StartedAt  time.Time `json:"started_at"`
}

// Sandbox is what confines a command.
type Sandbox struct {
	Profile    string   `json:"profile"`
	Enforced   []string `json:"enforced"` // what the kernel enforces, in words
	HasNetwork bool     `json:"network"`  // the command reaches the network; no egress rule restricts it
}

// Process is a running process of a task.
type Process struct {
	PID       int       `json:"pid"`
	ParentPID int       `json:"parent_pid"`
	Group     int       `json:"process_group"`
	State     string    `json:"state"` // running, sleeping, waiting, stopped, or the letter of the kernel
	Threads   int       `json:"threads"`
	StartedAt time.Time `json:"started_at"`
	Command   string    `json:"command"`              // with its arguments, redacted and possibly cut
	Directory string    `json:"directory,omitempty"`  // empty: it cannot be read
	CPUMS     int64     `json:"cpu_ms"`               // of the process alone, without its children
	Memory    int64     `json:"memory_bytes"`         // resident, with what it shares with others
	Peak      int64     `json:"peak_bytes,omitempty"` // the most memory that it had; 0: not known
}

// ProcessEnd says how the command of a task ended.
type ProcessEnd struct {
	Code      int       `json:"exit_code"`        // 128 plus the signal if one ended it
	Signal    int       `json:"signal,omitempty"` // 0: none
	Error     string    `json:"error,omitempty"`  // why the command was not executed
	Limit     string    `json:"limit,omitempty"`  // the limit of the sandbox that it was killed for
	TimedOut  bool      `json:"timed_out,omitempty"`
	Stopped   bool      `json:"stopped,omitempty"` // a stop was requested before its first process ended
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Left      int       `json:"left,omitempty"`       // processes that it left running, which were ended then
	Peak      int64     `json:"peak_bytes,omitempty"` // the most memory that one process had; 0: not known
}

// OutputFile is a file with output of a task.
type OutputFile struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}
