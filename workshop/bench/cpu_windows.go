package main

import "time"

// cpuTime is not asked for here.
func cpuTime() time.Duration { return 0 }
