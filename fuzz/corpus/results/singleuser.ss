Re-aim Workload - Single user test 
Disk iterations 10

Test   Test        Elapsed   Iteration Iteration     Operation
Number Name        Time(sec) Count     Rate(loops/s) Rate (ops/sec)
1      add_double   10.03      295       29.41           529411.76 Thousand Double Precision Additions/second
