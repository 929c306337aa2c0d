Benchmark	Version	Machine	Run Date
AIM7	1.1	quad	Jan 2

Tasks	Jobs/Min	JTI	Real	CPU	Jobs/sec/task
1	570.6	100	10.2	8.5	9.51
100	21000.5	97	27.7	50.1	3.50
