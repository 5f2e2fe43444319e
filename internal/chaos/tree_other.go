//go:build !linux

package chaos

// SurvivingProcesses returns nil: this system has no readable process table.
func SurvivingProcesses(string, []string, []int) []Violation { return nil }
